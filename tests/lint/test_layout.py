"""What Enroot, Pyxis and hooks need: each thing taken away is told, with the reason."""

from __future__ import annotations

import shutil

import pytest
from apertus_image.lint.build import lint
from support import elf, roots
from support.elf import needs_gcc
from support.roots import LIBC, TOOLKIT, TRIPLET

pytestmark = needs_gcc


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A root with CUDA, made once."""
    work = tmp_path_factory.mktemp("layout")
    return roots.toolkit(roots.good(work / "root"), work)


@pytest.fixture
def root(made, tmp_path):
    """A root of the test's own, to be spoilt."""
    return shutil.copytree(made, tmp_path / "root", symlinks=True)


def findings(tmp_path, root, *, cuda=True, cache=True, **options):
    """(path, subject, why) of the layout's findings."""
    trees = [root, *([roots.cached(tmp_path, root)] if cache else [])]
    report = lint(roots.spec(*trees, cuda=cuda, **options))
    return [(f.path, f.subject, f.why) for f in report["findings"] if f.check == "layout"]


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def test_a_good_root_passes(tmp_path, root):  # case 46
    assert findings(tmp_path, root) == []


def test_what_is_counted_is_not_nothing(tmp_path, root):
    report = lint(roots.spec(root, roots.cached(tmp_path, root), cuda=True))
    assert all(report["checked"].values()) and report["findings"] == []


@pytest.mark.parametrize("path", ["tmp", "run", "var", "root"])
def test_a_missing_folder(tmp_path, root, path):  # case 46
    remove(root / path)
    [(where, subject, why)] = findings(tmp_path, root)
    assert (where, subject) == (f"/{path}", "missing") and "real folder" in why


@pytest.mark.parametrize("path", ["tmp", "run", "etc", "usr/share"])
def test_a_link_where_a_folder_must_be(tmp_path, root, path):  # case 46
    (root / path).rename(root / "elsewhere")
    (root / path).symlink_to("/elsewhere")
    # The cache's tree has a folder etc, which would lie over the link.
    found = findings(tmp_path, root, cache=path != "etc")
    assert (f"/{path}", "link") in [each[:2] for each in found]


@pytest.mark.parametrize("path", ["etc/passwd", "etc/group", "etc/nsswitch.conf",
                                  "etc/environment", "etc/debian_version"])
@pytest.mark.parametrize("how", ["missing", "link", "dir"])
def test_a_file_that_is_none(tmp_path, root, path, how):  # case 46
    remove(root / path)
    if how == "link":
        (root / path).symlink_to("/usr/share/other")
    elif how == "dir":
        (root / path).mkdir()
    [(where, subject, why)] = findings(tmp_path, root)
    assert (where, subject) == (f"/{path}", how) and "plain file" in why


@pytest.mark.parametrize(("path", "target"), [
    ("/bin/sh", "usr/bin/sh"), ("/bin/sh", "usr/bin/dash"), ("/usr/sbin/ldconfig",
                                                           "usr/sbin/ldconfig"),
])
@pytest.mark.parametrize("how", ["missing", "script", "foreign"])
def test_a_program_that_is_none(tmp_path, root, path, target, how):  # case 46
    remove(root / target)
    if how == "script":
        (root / target).write_text("#!/bin/true\n")
    elif how == "foreign":
        (root / target).write_bytes(elf.header(183))
    [(where, _, why)] = findings(tmp_path, root)
    assert where == path and "program of x86_64" in why


def test_a_missing_loader(tmp_path, root):  # case 46
    remove(root / "usr/lib64/ld-linux-x86-64.so.2")
    assert [found[0] for found in findings(tmp_path, root)] == ["/lib64/ld-linux-x86-64.so.2"]


def test_a_missing_cache(tmp_path, root):  # case 46, trap 15
    [(where, subject, _)] = [f for f in findings(tmp_path, root, cache=False)
                             if f[0] == "/etc/ld.so.cache" and f[1] == "missing"]
    assert subject == "missing"


def test_a_damaged_cache(tmp_path, root):  # case 46
    (root / "etc/ld.so.cache").write_text("no cache")
    assert ("/etc/ld.so.cache", "damaged") in [
        found[:2] for found in findings(tmp_path, root, cache=False)]


def test_a_cache_without_the_c_library(tmp_path, root):  # case 46
    elsewhere = shutil.copytree(root, tmp_path / "elsewhere", symlinks=True)
    remove(elsewhere / LIBC)
    cache = roots.cached(tmp_path, elsewhere)
    report = lint(roots.spec(root, cache, cuda=True))
    assert ("/etc/ld.so.cache", "libc.so.6") in [(f.path, f.subject) for f in report["findings"]]


def test_a_cache_of_another_root(tmp_path, root):  # case 46
    elf.library(root / TRIPLET / "libgone.so.1", soname="libgone.so.1")
    cache = roots.cached(tmp_path, root)
    remove(root / TRIPLET / "libgone.so.1")
    report = lint(roots.spec(root, cache, cuda=True))
    assert any("libgone.so.1" in f.why for f in report["findings"] if f.check == "layout")


def test_another_c_library_than_the_stated_one(tmp_path, root):  # case 40
    assert findings(tmp_path, root, glibc=roots.GLIBC) == []
    found = findings(tmp_path, root, glibc="2.41")
    assert [(where, subject) for where, subject, _ in found] == [(f"/{LIBC}", "GLIBC_2.41")]


def test_only_the_versioned_cudart(tmp_path, root):  # case 46
    remove(root / TOOLKIT[1:] / "lib/libcudart.so")
    found = {(where, subject): why for where, subject, why in findings(tmp_path, root)}
    assert "OFI" in found["/etc/ld.so.cache", "libcudart.so"]
    assert ("/usr/local/cuda/lib64/libcudart.so", "missing") in found


def test_cudas_folder_unknown_to_the_loader(tmp_path, root):  # case 46, trap 15
    remove(root / "etc/ld.so.conf.d/apertus-cuda.conf")
    assert ("/etc/ld.so.cache", "libcudart.so") in [f[:2] for f in findings(tmp_path, root)]


@pytest.mark.parametrize("path", ["etc/ld.so.conf", "etc/ld.so.conf.d",
                                  "etc/ld.so.conf.d/apertus-cuda.conf"])
def test_a_cache_that_the_hooks_ldconfig_would_spoil(tmp_path, root, path):  # case 46
    cache = roots.cached(tmp_path, root)
    remove(root / path)
    report = lint(roots.spec(root, cache, cuda=True))
    [finding] = [f for f in report["findings"] if f.check == "layout"]
    assert finding.path == "/etc/ld.so.conf" and finding.subject.endswith("/nvidia/cu13/lib")
    assert "ldconfig would drop" in finding.why


@pytest.mark.parametrize("path", ["lib64", "lib/stubs/libcuda.so", "bin/nvcc"])
def test_a_toolkit_with_a_part_missing(tmp_path, root, path):  # trap 13
    remove(root / TOOLKIT[1:] / path)
    assert any(where.startswith("/usr/local/cuda/") and subject == "missing"
               for where, subject, _ in findings(tmp_path, root))


def test_the_stub_on_the_loaders_path(tmp_path, root):  # trap 13
    (root / "etc/ld.so.conf.d/stubs.conf").write_text(f"{TOOLKIT}/lib/stubs\n")
    [(where, subject, _)] = findings(tmp_path, root)
    assert (where, subject) == ("/etc/ld.so.cache", "stubs")


def test_without_cuda_its_paths_are_not_asked_for(tmp_path):  # the control
    root = roots.good(tmp_path / "root")
    assert findings(tmp_path, root, cuda=False) == []
    assert len(findings(tmp_path, root, cuda=True)) == 4


def test_an_image_of_store_paths_alone(tmp_path):  # case 46, trap 5
    tree = tmp_path / "root"
    elf.program(tree / "nix" / "store" / "0123-bash/bin/bash")
    report = lint(roots.spec(tree))
    told = {f.path: f.why for f in report["findings"] if f.check == "layout"}
    for path in ("/etc/passwd", "/tmp", "/bin/sh", "/usr/sbin/ldconfig", "/etc/ld.so.cache",
                 "/etc/environment", "/lib64/ld-linux-x86-64.so.2"):
        assert len(told[path]) > 20, path
