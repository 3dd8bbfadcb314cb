"""bundle/bring.sh: pinned packages from mirrors as they are, by whatever asks them."""

from __future__ import annotations

import hashlib
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
from apertus_image.fetch.places import snapshot_stamp
from support import seeding
from support.seeding import DATE, PACKAGES, POOL, cache, only, program, seed
from support.server import body, cut, serve, status

NAME = "lib+bundle_1.0_amd64.deb"


@pytest.fixture
def project(tmp_path):
    return seeding.make(tmp_path)


def stored(project: Path, **replies):
    """Path -> replies of a server that has the packages; `replies` come in NAME's place."""
    found = {f"/debian/{POOL}/{deb.name}".replace("+", "%2B"): [body(deb.read_bytes())]
             for deb in (project.parent / "mirror" / POOL).iterdir()}
    return found | {f"/debian/{POOL}/{NAME}".replace("+", "%2B"): each
                    for each in replies.values()}


def test_a_damaged_package_is_had_from_the_next_mirror_or_told(project):
    mirror = project.parent / "mirror"
    bad = project.parent / "bad"
    shutil.copytree(mirror, bad)
    (bad / POOL / NAME).write_bytes(b"damaged")
    both = seed(project, APERTUS_DEBIAN_MIRRORS=f"{bad} file://{mirror}")
    assert both.returncode == 0, both.stderr
    alone = seed(project, APERTUS_DEBIAN_MIRRORS=str(bad))
    assert alone.returncode == 1 and alone.stdout == ""
    pin = hashlib.sha256((mirror / POOL / NAME).read_bytes()).hexdigest()
    for text in ("1 of 2 packages could not be brought", NAME, f"expected: SHA-256 {pin}",
                 f"bad/{POOL}/{NAME} (SHA-256 {hashlib.sha256(b'damaged').hexdigest()})",
                 "next:     set APERTUS_DEBIAN_MIRRORS"):
        assert text in alone.stderr
    assert "lib+toolchain_1.0" not in alone.stderr
    assert cache(project) == PACKAGES[1:]


@pytest.mark.parametrize("form", ["{0}", "{0}/", "file:{0}", "file://{0}", "mirror", "{0}/" + POOL])
def test_a_folder_may_be_named_in_any_way(project, form, monkeypatch):
    monkeypatch.chdir(project.parent)
    result = seed(project, APERTUS_DEBIAN_MIRRORS=form.format(project.parent / "mirror"))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("client", ["curl", "wget", "apt-helper"])
def test_mirrors_are_asked_by_what_there_is(project, client, tmp_path):
    if client == "apt-helper" and not Path("/usr/lib/apt/apt-helper").exists():
        pytest.skip("not run: apt is not here")
    if client != "apt-helper" and not shutil.which(client):
        pytest.skip(f"not run: {client} is not here")
    path = only(tmp_path / "bin", *([client] if client != "apt-helper" else []))
    with serve() as server:
        server.replies = stored(project)
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


def test_a_wget_without_options_is_given_none(project, tmp_path):
    """Busybox's, which may be built without -T, and then falls over it."""
    path = only(tmp_path / "bin")
    program(tmp_path / "bin", "wget", f"""\
[ "$1" != --help ] || {{ echo 'Usage: wget [-cqS] [-O FILE] URL...' >&2; exit 1; }}
[ "$1 $2" = "-q -O" ] && [ $# = 4 ] || exit 139
cp "{project.parent}/mirror/${{4#http://mirror/}}" "$3" """)
    with_plus = project.parent / "mirror" / POOL.replace("+", "%2B")
    with_plus.mkdir()
    for deb in (project.parent / "mirror" / POOL).iterdir():
        shutil.copy(deb, with_plus / deb.name.replace("+", "%2B"))
    result = seed(project, PATH=path, APERTUS_DEBIAN_MIRRORS="http://mirror")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("fault", "said"), [
    ("page", "(SHA-256 "), ("cut", "(curl: (18)"), ("error", "503")])
def test_what_a_mirror_sends_instead_is_told_and_the_next_is_asked(project, fault, said):
    good = (project.parent / "mirror" / POOL / NAME).read_bytes()
    reply = {"page": body(b"<html>moved</html>", "text/html"), "cut": cut(good, 100),
             "error": status(503)}[fault]
    with serve() as server:
        server.replies = stored(project, reply=[reply])
        mirror = f"{server.url}/debian"
        alone = seed(project, APERTUS_DEBIAN_MIRRORS=mirror)
        assert alone.returncode == 1 and said in alone.stderr, alone.stderr
        both = seed(project, APERTUS_DEBIAN_MIRRORS=f"{mirror} {project.parent}/mirror")
    assert both.returncode == 0, both.stderr


def test_a_redirect_is_followed(project):
    with serve() as server:
        server.replies = stored(project, reply=[status(302, Location="/elsewhere")]) | {
            "/elsewhere": [body((project.parent / "mirror" / POOL / NAME).read_bytes())]}
        result = seed(project, APERTUS_DEBIAN_MIRRORS=f"{server.url}/debian")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("seconds", "asked"), [(6, 1), (0, 2)])
def test_a_server_that_does_not_answer_is_waited_for_once(project, seconds, asked):
    """And the control: one that answers nothing at once is asked for each package."""
    count = 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        def accept():
            nonlocal count
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    count += bool(connection.recv(1 << 16))
                    time.sleep(seconds)

        threading.Thread(target=accept, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/debian"
        result = seed(project, APERTUS_DEBIAN_MIRRORS=f"{url} {project.parent}/mirror/none")
    assert result.returncode == 1 and "2 of 2 packages" in result.stderr
    assert result.stderr.count("it did not answer before") == 2 - asked
    assert count == asked
    assert result.stderr.count(f"tried:    {project.parent}/mirror/none/") == 4


def test_many_packages_that_nobody_has_are_counted(project):
    for lock in ("toolchain", "bundle"):
        file = project / f"nix/pins/{lock}.json"
        line = next(each for each in file.read_text().splitlines() if "_amd64.deb" in each)
        more = ",\n".join(line.replace("_1.0_", f"_{n}_") for n in range(3))
        file.write_text(file.read_text().replace(line, f"{line},\n{more}"))
    result = seed(project)
    assert "6 of 8 packages could not be brought" in result.stderr
    assert result.stderr.count("where:") == 3


@pytest.mark.parametrize("words", ["No space left on device", "Disk quota exceeded"])
def test_a_full_disk_is_not_taken_for_a_mirrors_fault(project, tmp_path, words):
    path = only(tmp_path / "bin")
    program(tmp_path / "bin", "cp", f'echo "cp: error writing: {words}" >&2; exit 1')
    result = seed(project, PATH=path)
    assert result.returncode == 1 and "tried" not in result.stderr
    assert "the cache cannot be written" in result.stderr and words in result.stderr
    assert "make room" in result.stderr and cache(project) == []


def test_a_snapshot_archive_is_asked_with_the_locks_date(project):
    with serve() as server:
        server.replies = {path.replace("/debian/", f"/archive/{snapshot_stamp(DATE)}/"): reply
                          for path, reply in stored(project).items()}
        result = seed(project, APERTUS_DEBIAN_MIRRORS="/nowhere",
                      APERTUS_DEBIAN_SNAPSHOT=f"{server.url}/archive")
    assert result.returncode == 0, result.stderr


def test_where_no_mirror_is_known_it_says_what_to_set(project, tmp_path):
    result = seed(project, PATH=only(tmp_path / "bin"), without="APERTUS_DEBIAN_MIRRORS")
    assert result.returncode == 1
    assert "no Debian mirror is known" in result.stderr and "next:" in result.stderr


def test_apts_own_mirrors_are_asked(project, tmp_path):
    """Also by a list of mirrors, as cloud images have it."""
    path = only(tmp_path / "bin")
    (tmp_path / "list").write_text(f"# mine\nfile:{project.parent}/mirror priority:1\n")
    program(tmp_path / "bin", "apt-get",
            f"echo \"'mirror+file:{tmp_path}/list/dists/x/InRelease' name 0\"")
    result = seed(project, PATH=path, without="APERTUS_DEBIAN_MIRRORS")
    assert result.returncode == 0, result.stderr
    assert f"file:{project.parent}/mirror" in result.stdout


@pytest.mark.parametrize("own", [True, False])
def test_apts_own_mirrors_are_asked_by_apt_which_knows_its_proxies(project, tmp_path, own):
    if not Path("/usr/lib/apt/apt-helper").exists():
        pytest.skip("not run: apt is not here")
    path = only(tmp_path / "bin")
    program(tmp_path / "bin", "curl", "echo no way out; exit 7")
    with serve() as server:
        server.replies = stored(project)
        program(tmp_path / "bin", "apt-get",
                f"echo \"'{server.url}/debian/dists/x/InRelease' name 0\"")
        result = seed(project, PATH=path, **(
            {"without": "APERTUS_DEBIAN_MIRRORS"} if own else
            {"APERTUS_DEBIAN_MIRRORS": f"{server.url}/debian"}))
    assert result.returncode == (0 if own else 1), result.stderr
    assert ("no way out" in result.stderr) is not own
