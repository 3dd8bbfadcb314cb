"""The loader's cache, with the real ldconfig and the real loader as referees."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.elf.ldcache import build, parse, serialise
from apertus_image.elf.ldconfig import Library, folders, libcmp, libraries
from apertus_image.errors import UserError
from apertus_image.tree.machine import MACHINES
from apertus_image.tree.view import View
from support import elf
from support.elf import needs_gcc

LDCONFIG = shutil.which("ldconfig", path="/usr/sbin:/sbin")
CHROOT = "/usr/sbin/chroot"
needs_ldconfig = pytest.mark.skipif(
    not LDCONFIG or os.geteuid() != 0,
    reason="not run: needs ldconfig and root, for it changes its root")
X86 = MACHINES["x86_64"]
TRIPLET = "usr/lib/x86_64-linux-gnu"


def lay(root, libraries=(), links=(), texts=()):
    """Make a merged-usr root with libraries (path -> soname), links and texts."""
    for folder in ("usr/lib", "usr/lib64", "etc/ld.so.conf.d", TRIPLET):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    texts = {"etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n", **dict(texts)}
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode() if isinstance(text, str) else text)
    for path, soname in dict(libraries).items():
        elf.library(root / path, soname=soname)
    for path, target in dict(links).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    return root


def ours(root, *more):
    return [(e.name, e.path) for e in libraries(View([root, *more]), X86)]


def real(root):
    """The cache that ldconfig writes for this root; it makes links that are missing."""
    subprocess.run([LDCONFIG, "-r", root], check=True, capture_output=True)
    return [(e.name, e.path) for e in parse((root / "etc/ld.so.cache").read_bytes())]


def usual(root):
    """A root like the image's: packages, a folder of CUDA's, names of every kind."""
    return lay(root, {
        f"{TRIPLET}/libfoo.so.1.2.3": "libfoo.so.1", f"{TRIPLET}/libplain.so": None,
        f"{TRIPLET}/libm9.so.9": "libm9.so.9", f"{TRIPLET}/libm10.so.10": "libm10.so.10",
        f"{TRIPLET}/libstdc++.so.6.0.33": "libstdc++.so.6",
        f"{TRIPLET}/libUpper.so.1": "libUpper.so.1", f"{TRIPLET}/lib_x-y.so.1": "lib_x-y.so.1",
        f"{TRIPLET}/module.so": "module.so", f"{TRIPLET}/sub/libhidden.so.1": "libhidden.so.1",
        "usr/lib/libold.so.1": "libold.so.1",
        "opt/a/libfoo.so.1": "libfoo.so.1", "opt/b/libfoo.so.1": "libfoo.so.1",
        "opt/b/libcudart.so.13.0.96": "libcudart.so.13",
        "opt/away/libaway.so.1": "libaway.so.1",
    }, {
        f"{TRIPLET}/libfoo.so.1": "libfoo.so.1.2.3", f"{TRIPLET}/libfoo.so": "libfoo.so.1",
        f"{TRIPLET}/libstdc++.so.6": "libstdc++.so.6.0.33",
        f"{TRIPLET}/libdangling.so.1": "nowhere", "opt/b/libcudart.so.13": "libcudart.so.13.0.96",
        "opt/b/libcudart.so": "libcudart.so.13",
        f"{TRIPLET}/libaway.so.1": "/opt/away/libaway.so.1",
    }, {
        "etc/ld.so.conf.d/b.conf": "# a comment\n/opt/b  # and another\n\n/opt/missing\n",
        "etc/ld.so.conf.d/a.conf": "/opt/a\n", "etc/ld.so.conf.d/not-read": "/opt/away\n",
        f"{TRIPLET}/libscript.so": "INPUT(libfoo.so.1)\n", f"{TRIPLET}/libempty.so.1": "",
        f"{TRIPLET}/libarm.so.1": elf.header(183),
    })


@needs_gcc
@needs_ldconfig
def test_the_usual_root_as_ldconfig_has_it(tmp_path):  # trap 15, case 46
    root = usual(tmp_path / "root")
    found = ours(root)
    expected = real(root)
    assert found == expected
    assert [path for name, path in expected if name == "libfoo.so.1"] == [
        "/opt/a/libfoo.so.1", "/opt/b/libfoo.so.1", "/lib/x86_64-linux-gnu/libfoo.so.1"]
    assert ("libcudart.so", "/opt/b/libcudart.so") in expected
    for name in ("libhidden.so.1", "libscript.so", "libarm.so.1", "module.so"):
        assert name not in dict(expected)


ROOTS = {
    "several files of one soname": ({"opt/a/libx.so.1.9": "libx.so.1",
                                     "opt/a/libx.so.1.10": "libx.so.1"}, {}),
    "and a link to the lower": ({"opt/a/libx.so.1.9": "libx.so.1",
                                 "opt/a/libx.so.1.10": "libx.so.1"},
                                {"opt/a/libx.so.1": "libx.so.1.9"}),
    "a file named as the soname, and another": ({"opt/a/libx.so.1": "libx.so.1",
                                                 "opt/a/libx.so.1.5": "libx.so.1"}, {}),
    "no link for the soname": ({"opt/a/libx.so.1.5": "libx.so.1"}, {}),
    "a link without the version alone": ({"opt/a/libx.so.1.5": "libx.so.1"},
                                         {"opt/a/libx.so": "libx.so.1.5"}),
    "a link of another name": ({"opt/a/libx.so.1.5": "libx.so.1"},
                               {"opt/a/libother.so.3": "libx.so.1.5"}),
    "a soname unlike the file's name": ({"opt/a/libx.so": "liby.so.2"}, {}),
    "a link to a library without a soname": ({"opt/a/libx.so": None},
                                             {"opt/a/libx.so.1": "libx.so"}),
    "a folder that is a link": ({"opt/real/libx.so.1": "libx.so.1"}, {"opt/a": "real"}),
    "one folder under two names": ({"opt/b/libx.so.1": "libx.so.1"}, {"opt/a": "b"}),
    "one link over another": ({"opt/a/libx.so.1.5": "libx.so.1"},
                              {"opt/a/libx.so.1": "libx.so.1.4",
                               "opt/a/libx.so.1.4": "libx.so.1.5"}),
}


@needs_gcc
@needs_ldconfig
@pytest.mark.parametrize("what", ROOTS)
def test_odd_roots_as_ldconfig_has_them(tmp_path, what):
    made, links = ROOTS[what]
    root = lay(tmp_path / "root", made, links, {"etc/ld.so.conf": "/opt/a\n/opt/b\n"})
    found = ours(root)
    assert all((root / path[1:]).exists() for _, path in found)
    present = {str(path.relative_to(root)) for path in root.rglob("*")}
    expected = real(root)
    assert [name for name, _ in found] == [name for name, _ in expected] != []
    for (name, path), (_, theirs) in zip(found, expected, strict=True):
        # A link that ldconfig had to make: ours has the file that it leads to.
        assert path == theirs or theirs[1:] not in present, name
        assert (root / path[1:]).samefile(root / theirs[1:]), name


@needs_gcc
@needs_ldconfig
def test_built_in_folders_come_in_ldconfigs_order(tmp_path):
    root = lay(tmp_path / "root", {f"{folder}/libx.so.1": "libx.so.1"
                                   for folder in (TRIPLET, "usr/lib", "opt/a")},
               texts={"etc/ld.so.conf": "/opt/a\n"})
    assert ours(root) == real(root)


@needs_gcc
@needs_ldconfig
def test_ldconfig_reads_our_cache_as_its_own(tmp_path):  # case 46
    root = usual(tmp_path / "root")
    shown = []
    for maker in ("real", "ours"):
        if maker == "real":
            real(root)
        else:
            build({"machine": "x86_64", "roots": [str(root)]}, tmp_path / "out", tmp_path / "m")
            shutil.copyfile(tmp_path / "out/etc/ld.so.cache", root / "etc/ld.so.cache")
        text = subprocess.run([LDCONFIG, "-r", root, "-p"], capture_output=True, text=True,
                              check=True).stdout
        shown.append([line for line in text.splitlines() if "=>" in line])
    assert shown[0] == shown[1] and any("libc6,x86-64" in line for line in shown[1])


@needs_gcc
@needs_ldconfig
def test_the_loader_finds_a_library_by_our_cache_alone(tmp_path):  # trap 15, case 42
    root = tmp_path / "root"
    library = elf.library(root / "opt/deep/libdeep.so.1", soname="libdeep.so.1",
                          source="int deep(void) { return 7; }\n")
    program = elf.program(root / "bin/program", library,
                          source="int deep(void); int main(void) { return deep(); }\n")
    for each in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", program], text=True,
                                                          capture_output=True, check=True).stdout):
        target = root / each[1:]
        if not target.exists() and "libdeep" not in each:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(each, target)
    start = [CHROOT, root, "/bin/program"]
    assert subprocess.run(start, capture_output=True, env={}).returncode == 127
    (root / "etc").mkdir()
    (root / "etc/ld.so.conf").write_text("/opt/deep\n")
    build({"machine": "x86_64", "roots": [str(root)]}, tmp_path / "out", tmp_path / "m")
    shutil.copyfile(tmp_path / "out/etc/ld.so.cache", root / "etc/ld.so.cache")
    assert subprocess.run(start, capture_output=True, env={}).returncode == 7


@needs_gcc
def test_trees_of_several_layers_are_seen_as_one(tmp_path):
    whole = usual(tmp_path / "whole")
    upper = tmp_path / "upper"
    (upper / "opt").mkdir(parents=True)
    lower = shutil.copytree(whole, tmp_path / "lower", symlinks=True)
    shutil.move(lower / "opt/b", upper / "opt/b")
    shutil.move(lower / "etc/ld.so.conf.d", upper / "etc/ld.so.conf.d")
    assert ours(lower, upper) == ours(whole)


@needs_gcc
def test_the_other_machines_libraries_are_left_out(tmp_path):  # case 6
    root = usual(tmp_path / "root")
    assert libraries(View([root]), MACHINES["aarch64"]) == []
    with pytest.raises(UserError, match="no library") as error:
        build({"machine": "aarch64", "roots": [str(root)]}, tmp_path / "out", tmp_path / "m")
    assert error.value.where == "aarch64" and not (tmp_path / "out").exists()


def test_folders_are_those_of_the_machine(tmp_path):
    root = lay(tmp_path / "root", texts={"usr/lib/aarch64-linux-gnu/x": ""})
    assert folders(View([root]), X86) == ["/lib/x86_64-linux-gnu", "/lib"]
    assert folders(View([root]), MACHINES["aarch64"]) == ["/lib/aarch64-linux-gnu", "/lib"]


def test_libcmp_is_an_order_of_versions():
    ordered = ["libx.so", "libx.so.1", "libx.so.1.2", "libx.so.1.10", "libx.so.2", "libx.so.10",
               "libx.so.10.0"]
    for left, right in itertools.combinations(ordered, 2):
        assert libcmp(left, right) < 0 < libcmp(right, left)
    assert all(libcmp(name, name) == 0 for name in ordered)
    assert libcmp("libxa.so", "libx1.so") < 0  # digits come after letters


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_written_is_read_again(machine):
    entries = [Library(f"lib{n}.so", f"/opt/{n % 7}/lib{n}.so") for n in range(500)]
    data = serialise(entries, MACHINES[machine])
    assert parse(data) == entries
    assert data == serialise(entries, MACHINES[machine])


@pytest.mark.parametrize("data", [b"", b"ld.so-1.7.0", random.Random(1).randbytes(100)])
def test_what_is_no_cache(data):
    with pytest.raises(UserError, match="not a loader cache"):
        parse(data)


def test_a_cache_cut_short_anywhere_is_refused():
    data = serialise([Library("libx.so.1", "/usr/lib/libx.so.1")], MACHINES["x86_64"])
    for length in range(len(data)):
        with pytest.raises(UserError):
            parse(data[:length])


def test_this_machines_own_cache_is_read():
    cache = Path("/etc/ld.so.cache")
    if not cache.exists():
        pytest.skip("not run: this machine has no loader cache")
    names = {entry.name for entry in parse(cache.read_bytes())}
    assert "libc.so.6" in names
