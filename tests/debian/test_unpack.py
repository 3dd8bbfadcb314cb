"""Packages unpacked alike by everybody, and everything refused that leads astray."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import apertus_image
import pytest
import zstandard
from apertus_image.debian.unpack import Root, merged_usr
from apertus_image.errors import UserError
from support import debs
from support.debs import device, file, folder, hard, link
from support.wheels import content

PRIVILEGED = [
    folder("var/shared", 0o2775), file("usr/bin/su", "setuid", 0o4755),
    file("usr/bin/wall", "setgid", 0o2755), file("usr/bin/plain", "plain", 0o775),
    hard("usr/bin/same", "./usr/bin/plain", 0o755), file("etc/secret", "s", 0o600),
    folder("var/closed", 0o700), file("var/closed/x", "x", 0o400), link("etc/l", "secret"),
]

AS_WHOEVER = """
import json, os, sys
from pathlib import Path
from apertus_image.debian.unpack import Root
os.umask(int(sys.argv[3], 8))
root = Root(Path(sys.argv[2]))
root.unpack("pkg", Path(sys.argv[1]))
print(json.dumps([os.geteuid(), root.privileged, root.hashes, root.origins, root.listed]))
"""


def unpack(tmp_path, *packages, into="root", **options):
    """A root with these packages, each a list of members."""
    root = Root(tmp_path / into, **options)
    root.folder.mkdir()
    for number, members in enumerate(packages):
        pin = debs.make(tmp_path, f"p{number}", members)
        root.unpack(f"p{number}", Path(pin["path"]))
    return root


def refusal(tmp_path, *packages):
    with pytest.raises(UserError) as error:
        unpack(tmp_path, *packages)
    return str(error.value)


@pytest.fixture
def open_folder(tmp_path):
    """A folder that an ordinary user can reach and write in."""
    found = Path("/tmp") / f"apertus-unpack-{os.getpid()}-{tmp_path.name}"
    found.mkdir(mode=0o777)
    found.chmod(0o777)
    yield found
    shutil.rmtree(found)


def run_as(user, deb, into, umask):
    """Unpack in a process of its own: as this user, or as an ordinary one."""
    # The interpreter may lie where only root may read: modules are copied into view.
    tools = deb.parent / "tools"
    if not tools.exists():
        for package in (apertus_image, zstandard):
            source = Path(package.__file__).parent
            shutil.copytree(source, tools / source.name)
    change = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if user else []
    result = subprocess.run(
        [*change, "/usr/bin/python3", "-B", "-c", AS_WHOEVER, str(deb), str(into), umask],
        capture_output=True, text=True, env={"PYTHONPATH": str(tools), "PATH": os.environ["PATH"]})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"),
                    reason="not run: needs root and setpriv")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists() or
                    f"/python{sys.version_info[0]}.{sys.version_info[1]}" not in
                    os.path.realpath("/usr/bin/python3"),
                    reason="not run: no system Python of this version, which any user may run")
def test_root_and_an_ordinary_user_get_the_same(open_folder):  # case 43
    pin = debs.make(open_folder, "pkg", PRIVILEGED, uid=1234, gid=42, uname="games", mtime=99)
    found = []
    for user, umask in ((False, "000"), (True, "022"), (True, "077")):
        into = open_folder / f"{user}-{umask}"
        uid, *said = run_as(user, Path(pin["path"]), into, umask)
        assert uid == (65534 if user else 0)
        found.append((said, content(into)))
    assert found[0] == found[1] == found[2]
    assert found[0][1]["/usr/bin/su"] == (True, b"setuid")


def test_set_id_bits_are_dropped_and_reported(tmp_path):  # case 43
    root = unpack(tmp_path, PRIVILEGED)
    assert sorted(root.privileged) == [
        "p0: /usr/bin/su had mode 4755", "p0: /usr/bin/wall had mode 2755",
        "p0: /var/shared had mode 2775",
    ]
    modes = {p.name: p.stat().st_mode & 0o7777 for p in root.folder.rglob("*") if p.is_file()}
    assert (modes["su"], modes["wall"], modes["plain"]) == (0o755, 0o755, 0o755)
    assert (modes["secret"], modes["x"]) == (0o644, 0o644)
    assert not (root.folder / "var/shared").stat().st_mode & 0o6000


def test_hard_links_become_files_of_their_own(tmp_path):  # case 43
    root = unpack(tmp_path, PRIVILEGED)
    same = root.folder / "usr/bin/same"
    assert same.read_text() == "plain" and same.stat().st_nlink == 1
    assert root.hashes["/usr/bin/same"] == root.hashes["/usr/bin/plain"]


def test_a_hard_link_may_go_over_the_merged_root_and_to_a_symbolic_link(tmp_path):
    root = unpack(tmp_path, [file("bin/a", "a", 0o755), hard("bin/b", "./bin/a", 0o755),
                             link("bin/l", "a"), hard("bin/k", "./bin/l")])
    assert (root.folder / "usr/bin/b").read_text() == "a"
    assert str((root.folder / "usr/bin/k").readlink()) == "a"


@pytest.mark.parametrize("compression", debs.PACK)
def test_the_compression_does_not_matter(tmp_path, compression):  # case 43
    members = [*PRIVILEGED, file("big", random.Random(1).randbytes(300_000))]
    plain = unpack(tmp_path, members, into="plain")
    pin = debs.make(tmp_path / "other", "p0", members, compression=compression)
    other = Root(tmp_path / "other/root")
    other.unpack("p0", Path(pin["path"]))
    assert content(other.folder) == content(plain.folder)
    assert (other.hashes, other.origins, other.privileged) == (
        plain.hashes, plain.origins, plain.privileged)


@pytest.mark.parametrize(("member", "words"), [
    (device("dev/null"), "device node"),
    (("run/pipe", b"", {"type": b"6"}), "device node"),
    (file("../escape", "x"), "leads out of the root"),
    (file("./a/../../escape", "x"), "leads out of the root"),
    (file("/escape", "x"), "leads out of the root"),
    (hard("stolen", "../outside"), "leads to no file"),
    (hard("stolen", "/etc/hostname"), "leads to no file"),
    (hard("stolen", "./gone"), "leads to no file"),
    (file("away/escape", "x"), "through a link"),
    (hard("stolen", "./away/outside"), "leads to no file"),
    (file("plain/below", "x"), "through a file"),
    (folder("plain"), "two packages bring one path"),
    (file("nowhere", "x"), "two packages bring one path"),
    (folder("nowhere"), "two packages bring one path"),
    (link("folder", "away"), "two packages bring one path"),
    (file("folder", "x"), "two packages bring one path"),
])
def test_what_is_refused(tmp_path, member, words):  # case 43
    (tmp_path / "outside").write_text("the builder's own")
    before = [link("away", str(tmp_path)), file("plain", "1"), link("nowhere", "gone"),
              folder("folder")]
    said = refusal(tmp_path, before, [member])
    assert words in said and member[0].removeprefix("./") in said
    assert not (tmp_path / "escape").exists() and not (tmp_path / "root/stolen").exists()


def test_all_faults_of_a_package_are_told_together(tmp_path):
    said = refusal(tmp_path, [device("dev/a"), file("../b"), device("dev/c"), file("fine")])
    assert "3 faults" in said
    for name in ("dev/a", "../b", "dev/c"):
        assert name in said
    assert "fine" not in said


def test_equal_files_of_two_packages_are_one_and_others_a_conflict(tmp_path):
    root = unpack(tmp_path, [file("usr/x", "1"), link("usr/l", "x")],
                  [file("usr/x", "1"), link("usr/l", "x")])
    assert root.origins["/usr/x"] == root.origins["/usr/l"] == "deb:p0"
    shutil.rmtree(tmp_path / "root")
    for one, two in ((file("usr/x", "1"), file("usr/x", "2")),
                     (link("usr/x", "a"), link("usr/x", "b")),
                     (file("usr/x", "1"), link("usr/x", "1"))):
        said = refusal(tmp_path, [one], [two])
        assert "/usr/x" in said and "p0 and p1" in said and "userland.packages" in said
        shutil.rmtree(tmp_path / "root")


def test_paths_of_the_unmerged_root_are_moved(tmp_path):
    assert merged_usr("lib/x86_64-linux-gnu/libc.so.6") == "usr/lib/x86_64-linux-gnu/libc.so.6"
    assert merged_usr("lib64/ld.so") == "usr/lib64/ld.so"
    assert merged_usr("lib") == "lib" and merged_usr("libexec/x") == "libexec/x"
    assert merged_usr("usr/lib/x") == "usr/lib/x"


def test_what_is_left_out_and_what_is_kept_of_it(tmp_path):
    root = unpack(
        tmp_path, [file("usr/share/doc/p/README", "r"), file("usr/share/doc/p/copyright", "c"),
                   folder("usr/share/man"), file("usr/share/man/man1/p.1", "m"),
                   file("usr/bin/p", "p", 0o755)],
        left_out=("usr/share/man/*", "usr/share/doc/*"), kept=("usr/share/doc/*/copyright",))
    files = {path for path, held in content(root.folder).items() if held}
    assert files == {"/usr/share/doc/p/copyright", "/usr/bin/p"}
    assert set(root.listed["p0"]) == {"/.", *files, "/usr/share/man"}
