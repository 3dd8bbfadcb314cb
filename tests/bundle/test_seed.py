"""bundle/seed.sh: packages brought and unpacked by sh, and the command run on them."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.fetch.places import snapshot_stamp
from apertus_image.pins import lockfile
from apertus_image.tree.machine import this_machine
from support import debs, images
from support.bare import PROGRAMS
from support.server import body, serve, status

SEED = images.PROJECT / "tools/apertus_image/bundle/seed.sh"
LIB = f"usr/lib/{this_machine().triplet}"
POOL = "pool/main/l/lib+x"
DATE = "Sat, 31 Jan 2026 09:15:44 UTC"
# In the loader's place: it tells what it is started with.
LOADER = """\
#!/bin/sh
echo "$@"
echo "mirrors: $APERTUS_DEBIAN_MIRRORS"
cat "$PYTHONHOME/lib/python3/dist-packages/certifi/core.py" "$APERTUS_SEED/certificates.crt"
exit ${RESULT:-0}
"""


@pytest.fixture
def project(tmp_path):
    """A project with two packages pinned, which lie in tmp_path/mirror."""
    mirror, pins = tmp_path / "mirror", tmp_path / "project/nix/pins"
    pins.mkdir(parents=True)
    packages = {"toolchain": [debs.file(f"{LIB}/{Path(this_machine().loader).name}", LOADER, 0o755),
                              debs.file("usr/bin/python3.13", "", 0o755)],
                "bundle": [debs.file("usr/lib/python3/dist-packages/certifi/core.py",
                                     "'/etc/ssl/certs/ca-certificates.crt'\n"),
                           debs.file("usr/share/ca-certificates/mozilla/a.crt", "one\n"),
                           debs.file("usr/share/ca-certificates/mozilla/b.crt", "two\n")]}
    for lock, members in packages.items():
        deb = Path(debs.make(mirror / POOL, f"lib+{lock}", members)["path"])
        pin = {"name": lock, "path": f"{POOL}/{deb.name}", "size": deb.stat().st_size,
               "sha256": hashlib.sha256(deb.read_bytes()).hexdigest()}
        other = pin | {"path": "pool/other/machine.deb"}
        ours = this_machine().debian
        keys = ("name", "path", "sha256", "size")  # in this order, as tools/lock writes them
        lockfile.write({"date": DATE} | {each: [
            {key: (pin if each == ours else other)[key] for key in keys}
        ] for each in ("amd64", "arm64")}, pins / f"{lock}.json")
    return tmp_path / "project"


def seed(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    surroundings = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(project.parent / "cache")}
    return subprocess.run(["sh", SEED, project, *arguments], capture_output=True, text=True,
                          timeout=60, env=surroundings | variables)


def cache(project: Path) -> list[str]:
    folder = project.parent / "cache/apertus-image/seed"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_command_is_run_on_what_was_brought_which_then_goes(project):
    mirror = str(project.parent / "mirror")
    result = seed(project, "DIR", "--json", APERTUS_DEBIAN_MIRRORS=mirror)
    assert result.returncode == 0, result.stderr
    words, mirrors, *certificates = result.stdout.splitlines()
    assert words.endswith("/usr/bin/python3.13 -m apertus_image.commands.bootstrap DIR --json")
    place = project.parent / "cache/apertus-image/seed/debs"
    assert mirrors == f"mirrors: {place} {mirror}"  # nothing is asked for twice
    assert certificates[0].endswith("certificates.crt'") and certificates[1:] == ["one", "two"]
    assert cache(project) == [] and "bringing 2 packages" in result.stderr


def test_what_was_brought_stays_when_the_command_fails(project):
    mirror = str(project.parent / "mirror")
    failed = seed(project, APERTUS_DEBIAN_MIRRORS=mirror, RESULT="7")
    assert failed.returncode == 7
    assert cache(project) == ["debs/lib+bundle_1.0_amd64.deb", "debs/lib+toolchain_1.0_amd64.deb"]
    again = seed(project, APERTUS_DEBIAN_MIRRORS="/nowhere")
    assert again.returncode == 0, again.stderr


def test_a_damaged_package_is_had_from_the_next_mirror_or_told(project):
    mirror = project.parent / "mirror"
    bad = project.parent / "bad"
    shutil.copytree(mirror, bad)
    name = "lib+bundle_1.0_amd64.deb"
    (bad / POOL / name).write_bytes(b"damaged")
    both = seed(project, APERTUS_DEBIAN_MIRRORS=f"{bad} file://{mirror}")
    assert both.returncode == 0, both.stderr
    alone = seed(project, APERTUS_DEBIAN_MIRRORS=str(bad))
    assert alone.returncode == 1 and alone.stdout == ""
    pin = hashlib.sha256((mirror / POOL / name).read_bytes()).hexdigest()
    for text in ("could not be brought", name, f"expected: SHA-256 {pin}",
                 f"bad/{POOL}/{name} (SHA-256 {hashlib.sha256(b'damaged').hexdigest()})",
                 "next:     set APERTUS_DEBIAN_MIRRORS"):
        assert text in alone.stderr
    assert "lib+toolchain_1.0" not in alone.stderr
    assert cache(project) == ["debs/lib+toolchain_1.0_amd64.deb"]


def only(folder: Path, *more: str) -> str:
    """A PATH with what a bare machine has, and these."""
    folder.mkdir()
    for name in (*PROGRAMS, *more):
        (folder / name).symlink_to(shutil.which(name))
    return str(folder)


def test_packages_are_unpacked_by_tar_and_xz_or_by_dpkg(project, tmp_path):
    mirror = str(project.parent / "mirror")
    for number, more in enumerate([(), ("dpkg-deb",)]):
        if all(map(shutil.which, more)):
            path = only(tmp_path / f"bin{number}", *more)
            if more:
                (Path(path) / "xz").unlink()
            result = seed(project, PATH=path, APERTUS_DEBIAN_MIRRORS=mirror)
            assert result.returncode == 0 and "two" in result.stdout, result.stderr


@pytest.mark.parametrize("client", ["curl", "wget", "apt-helper"])
def test_mirrors_are_asked_by_what_there_is(project, client, tmp_path):
    if client == "apt-helper" and not Path("/usr/lib/apt/apt-helper").exists():
        pytest.skip("not run: apt is not here")
    if client != "apt-helper" and not shutil.which(client):
        pytest.skip(f"not run: {client} is not here")
    path = only(tmp_path / "bin", *([client] if client != "apt-helper" else []))
    with serve() as server:
        for deb in (project.parent / "mirror" / POOL).iterdir():
            server.replies[f"/debian/{POOL}/{deb.name}".replace("+", "%2B")] = [
                body(deb.read_bytes())]
        result = seed(project, PATH=path, APERTUS_DEBIAN_MIRRORS=f"{server.url}/debian/")
        assert result.returncode == 0, result.stderr
        assert len(server.asked) == 2
        # And the control: nobody has it.
        server.replies = {path: [status(404)] for path in server.replies}
        refused = seed(project, PATH=path, APERTUS_DEBIAN_MIRRORS=server.url.replace(
            "://", "://user:secret@"))
    assert refused.returncode == 1 and f"tried:    {server.url}/{POOL}" in refused.stderr.replace(
        "%2B", "+")
    assert "secret" not in refused.stderr
    assert ("exit code 8" if client == "wget" else "404") in refused.stderr


def test_a_snapshot_archive_is_asked_with_the_locks_date(project):
    with serve() as server:
        for deb in (project.parent / "mirror" / POOL).iterdir():
            server.replies[f"/archive/{snapshot_stamp(DATE)}/{POOL}/{deb.name}".replace(
                "+", "%2B")] = [body(deb.read_bytes())]
        result = seed(project, APERTUS_DEBIAN_MIRRORS="/nowhere",
                      APERTUS_DEBIAN_SNAPSHOT=f"{server.url}/archive")
    assert result.returncode == 0, result.stderr


def test_where_no_mirror_is_known_it_says_what_to_set(project, tmp_path):
    result = seed(project, PATH=only(tmp_path / "bin"))
    assert result.returncode == 1
    assert "no Debian mirror is known" in result.stderr and "next:" in result.stderr


def test_apts_own_mirrors_are_asked(project, tmp_path):
    """Also by a list of mirrors, as cloud images have it."""
    path = only(tmp_path / "bin")
    (tmp_path / "list").write_text(f"# mine\nfile:{project.parent}/mirror priority:1\n")
    apt = tmp_path / "bin/apt-get"
    apt.write_text(f"#!/bin/sh\necho \"'mirror+file:{tmp_path}/list/dists/x/InRelease' name 0\"\n")
    apt.chmod(0o755)
    result = seed(project, PATH=path)
    assert result.returncode == 0, result.stderr
    assert f"file:{project.parent}/mirror" in result.stdout


def test_missing_programs_are_all_named(project, tmp_path):
    path = only(tmp_path / "bin")
    for name in ("tar", "xz"):
        (tmp_path / "bin" / name).unlink()
    result = seed(project, PATH=path, APERTUS_DEBIAN_MIRRORS="/nowhere")
    assert result.returncode == 1 and "expected:  tar xz" in result.stderr


def test_what_a_killed_run_left_is_removed_and_a_living_ones_is_not(project):
    folder = project.parent / "cache/apertus-image/seed"
    gone = subprocess.Popen(["true"])
    gone.wait()
    for pid in (gone.pid, os.getpid()):
        (folder / f"root.{pid}").mkdir(parents=True)
    assert seed(project, APERTUS_DEBIAN_MIRRORS=str(project.parent / "mirror")).returncode == 0
    assert [path.name for path in folder.iterdir()] == [f"root.{os.getpid()}"]


def test_another_machine_has_no_pins(project, tmp_path):
    path = only(tmp_path / "bin")
    (tmp_path / "bin/uname").unlink()
    (tmp_path / "bin/uname").write_text("#!/bin/sh\necho riscv64\n")
    (tmp_path / "bin/uname").chmod(0o755)
    result = seed(project, PATH=path)
    assert platform.machine() != "riscv64"
    assert result.returncode == 1 and "riscv64" in result.stderr
