"""A root file system of hand-made packages: declared effects, and no script run."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import apertus_image
import pytest
from apertus_image.debian.userland import build
from apertus_image.elf.ldcache import build as build_cache
from apertus_image.elf.ldcache import parse
from apertus_image.errors import UserError
from apertus_image.tree import manifest
from support import debs, elf
from support.debs import file, folder, hard, link
from support.wheels import PYTHON, content

CERTIFICATE = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"
SCRIPT = "#!/bin/sh\ntouch {}\nldconfig\n"


def base(tmp_path):
    return [debs.base_files(tmp_path), debs.base_passwd(tmp_path)]


def packages(tmp_path):
    """Packages with something of everything."""
    return [
        *base(tmp_path),
        debs.make(tmp_path, "zz", [file("usr/share/both", "equal")]),
        debs.make(tmp_path, "mawk", [file("usr/bin/mawk", "m", 0o755),
                                     file("usr/share/both", "equal")]),
        debs.make(tmp_path, "tzdata", [file("usr/share/zoneinfo/Etc/UTC", "TZif")],
                  architecture="all"),
        debs.make(tmp_path, "ca-certificates", [
            file("usr/share/ca-certificates/mozilla/B.crt", CERTIFICATE.format("B")),
            file("usr/share/ca-certificates/mozilla/A.crt", CERTIFICATE.format("A") + "\n"),
        ], architecture="all", scripts={"postinst": SCRIPT.format("/tmp/apertus-ran"),
                                        "triggers": "x"}),
        debs.make(tmp_path, f"python{PYTHON}", [
            file(f"usr/lib/python{PYTHON}/mod.py", "x = ('a', 'b')\n"),
            file(f"usr/lib/python{PYTHON}/EXTERNALLY-MANAGED", "no"),
            file(f"usr/bin/python{PYTHON}", "python", 0o755), link("usr/bin/py", "mawk"),
        ], control="Multi-Arch: same\n",
            scripts={"preinst": "x", "md5sums": "0  usr/bin/python\n"}),
        debs.make(tmp_path, "su", [file("bin/su", "su", 0o4755), hard("bin/su2", "./bin/su", 0o755),
                                   file("usr/share/man/man1/su.1", "m"),
                                   file("usr/share/doc/su/copyright", "c"),
                                   file("usr/share/doc/su/NEWS", "n"),
                                   link("usr/share/doc/su2", "su")], compression="zst"),
    ]


def userland(tmp_path, pins, into="out", count=1, machine="x86_64"):
    out = tmp_path / into
    build({"machine": machine, "python": PYTHON, "debs": pins}, out, tmp_path / f"{into}.m", count)
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("userland")
    return userland(folder, packages(folder)), folder / "out.m"


def test_order_and_workers_do_not_matter(tmp_path):  # cases 38, 43
    pins, expected = packages(tmp_path)[1:], None
    base_files = packages(tmp_path)[0]
    orders = [pins, pins[::-1], pins[3:] + pins[:3]]
    for number, (order, count) in enumerate(itertools.product(orders, [1, 3])):
        given = [*order[:number], base_files, *order[number:]]
        out = userland(tmp_path, given, str(number), count)
        found = content(out), (tmp_path / f"{number}.m").read_bytes()
        expected = expected or found
        assert found == expected


def test_the_root_is_merged(built):
    found = content(built[0])
    assert found["/bin"] == "usr/bin" and found["/lib64"] == "usr/lib64"
    assert found["/usr/bin/su"] == found["/usr/bin/su2"] == (True, b"su")


def test_skipped_scripts_are_listed_and_not_run(built, tmp_path):  # case 42
    found = content(built[0])
    assert found["/usr/share/apertus/skipped-maintainer-scripts"][1].decode().splitlines() == [
        "base-files: postinst", "ca-certificates: postinst", f"python{PYTHON}: preinst"]
    assert not Path("/tmp/apertus-ran").exists()


def test_dropped_privileges_are_listed(built):  # case 43
    assert content(built[0])["/usr/share/apertus/dropped-privileges"][1] == (
        b"su: /usr/bin/su had mode 4755\n")


def test_declared_effects_are_there(built):  # cases 42, 46
    found = content(built[0])
    for path in ("/tmp", "/proc", "/sys", "/dev", "/run/lock", "/var/tmp", "/root", "/var/log"):
        assert found[path] is None, path
    assert found["/etc/passwd"][1].startswith(b"root:")
    assert found["/etc/group"][1] == b"root:*:0:\n"
    assert found["/etc/localtime"] == "/usr/share/zoneinfo/Etc/UTC"
    assert found["/etc/mtab"] == "../proc/self/mounts"
    # base-files has folders there.
    assert found["/var/run"] == "/run" and found["/var/lock"] == "/run/lock"
    assert found["/usr/bin/awk"] == found["/usr/bin/nawk"] == "mawk"
    assert found["/etc/environment"] == (False, b"")
    assert b"hosts:    files dns" in found["/etc/nsswitch.conf"][1]
    # No link to what is not there.
    assert "/usr/bin/cc" not in found and "/usr/bin/pager" not in found


def test_files_where_a_link_has_to_be_are_told(tmp_path):
    pins = [*base(tmp_path), debs.make(tmp_path, "old", [file("var/run/old.pid", "1")])]
    with pytest.raises(UserError, match="a link has to be") as error:
        userland(tmp_path, pins)
    assert error.value.where == "/var/run" and error.value.got == "old.pid"


def test_certificates_are_one_bundle_and_links(built):  # case 42
    found = content(built[0])
    bundle = found["/etc/ssl/certs/ca-certificates.crt"][1].decode()
    assert bundle == CERTIFICATE.format("A") + "\n" + CERTIFICATE.format("B") + "\n"
    assert found["/etc/ssl/certs/A.pem"] == "/usr/share/ca-certificates/mozilla/A.crt"


def test_what_is_left_out(built):
    found = content(built[0])
    assert "/usr/share/doc/su/copyright" in found
    assert found["/usr/share/doc/su2"] == "su"  # the way to its copyright
    assert "/usr/share/doc/su/NEWS" not in found
    assert "/usr/share/man/man1/su.1" not in found
    assert f"/usr/lib/python{PYTHON}/EXTERNALLY-MANAGED" not in found


def test_a_login_shell_keeps_the_path_it_was_given(built):  # facts on Enroot, 0.5
    profile = built[0] / "etc/profile"
    for given, seen in (({"PATH": "/its/own"}, "/its/own"), ({"PATH": ""}, "/usr/local/sbin:")):
        result = subprocess.run(["/bin/sh", "-c", f'. {profile}; echo "$PATH"'], env=given,
                                capture_output=True, text=True, check=True)
        assert result.stdout.startswith(seen)


def test_pythons_library_has_bytecode(built):  # trap 14
    tag = sys.implementation.cache_tag
    entries = {e.path: e for e in manifest.read(built[1])}
    each = entries[f"/usr/lib/python{PYTHON}/__pycache__/mod.{tag}.pyc"]
    assert each.origin == f"deb:python{PYTHON}"


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="not run: there is no dpkg-query")
def test_dpkg_sees_what_is_installed(built):
    admin = f"--admindir={built[0]}/var/lib/dpkg"
    shown = "-f=${Package} ${Version} ${db:Status-Abbrev}\n"
    listed = subprocess.run(["dpkg-query", admin, "-W", shown], capture_output=True, text=True,
                            check=True).stdout.splitlines()
    assert [line.split() for line in listed] == [
        [name, "1.0", "ii"] for name in ("base-files", "base-passwd", "ca-certificates", "mawk",
                                         f"python{PYTHON}", "su", "tzdata", "zz")]
    files = subprocess.run(["dpkg-query", admin, "-L", "su"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    assert {"/usr/bin/su", "/usr/bin/su2", "/usr/share/doc/su/copyright"} <= set(files)
    info = built[0] / "var/lib/dpkg/info"
    assert (info / f"python{PYTHON}:amd64.md5sums").exists() and (info / "su.list").exists()


def test_the_manifest_is_what_a_scan_of_the_tree_says(built):
    out, file = built
    written = {e.path: e for e in manifest.read(file)}
    assert {p: e.content() for p, e in written.items()} == {
        e.path: e.content() for e in manifest.scan(out, "x")}
    assert written["/usr/bin/su"].origin == "deb:su"
    assert written["/etc/passwd"].origin == "generated"
    assert written["/usr/share/both"].origin == "deb:mawk"


@pytest.mark.parametrize(("machine", "fits"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_a_package_for_another_machine_is_refused(tmp_path, machine, fits):  # case 6
    pins = [debs.base_files(tmp_path, architecture=fits),
            debs.base_passwd(tmp_path, architecture="all")]
    userland(tmp_path, pins, machine=machine)
    other = "amd64" if fits == "arm64" else "arm64"
    pins.append(debs.make(tmp_path, "foreign", [], architecture=other))
    with pytest.raises(UserError, match="another machine") as error:
        userland(tmp_path, pins, "refused", machine=machine)
    assert error.value.where == "foreign" and error.value.got == other
    assert not (tmp_path / "refused.m").exists()


@elf.needs_gcc
def test_the_loaders_cache_covers_a_folder_that_a_package_names(tmp_path):  # case 42
    library = elf.library(tmp_path / "libdeep.so.1", soname="libdeep.so.1")
    deep = debs.make(tmp_path, "deep", [
        folder("usr/lib/deep"), file("usr/lib/deep/libdeep.so.1", library.read_bytes()),
        file("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n"),
        file("etc/ld.so.conf.d/deep.conf", "/usr/lib/deep\n"),
    ], scripts={"postinst": SCRIPT.format("/tmp/apertus-ran")})
    out = userland(tmp_path, [*base(tmp_path), deep])
    build_cache({"machine": "x86_64", "roots": [str(out)]}, tmp_path / "cache", tmp_path / "c.m")
    entries = parse((tmp_path / "cache/etc/ld.so.cache").read_bytes())
    assert [(e.name, e.path) for e in entries] == [("libdeep.so.1", "/usr/lib/deep/libdeep.so.1")]


def test_a_fault_is_told_without_a_traceback(tmp_path):
    given = {"machine": "x86_64", "python": PYTHON,
             "debs": [debs.make(tmp_path, "foreign", [], architecture="arm64")]}
    (tmp_path / "spec.json").write_text(json.dumps(given))
    tools = Path(apertus_image.__path__[0]).parent
    result = subprocess.run(
        [sys.executable, "-m", "apertus_image.debian.userland", tmp_path / "spec.json",
         tmp_path / "out", tmp_path / "m"], capture_output=True, text=True,
        env={"PYTHONPATH": tools})
    assert result.returncode == 1
    assert result.stderr.startswith("error: a package is for another machine")
    assert "Traceback" not in result.stderr
