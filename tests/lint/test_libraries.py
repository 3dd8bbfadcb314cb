"""Needs, machines and versions of ELF files, with the real loader as referee."""

from __future__ import annotations

import ctypes
import posixpath
import shutil
import subprocess
import sys

import pytest
from apertus_image.lint.build import lint
from apertus_image.wheel.build import build as build_wheels
from support import elf, roots, wheels
from support.elf import needs_gcc
from support.roots import LIBC, START, TRIPLET
from support.wheels import SITE

pytestmark = needs_gcc
DEEP = SITE[1:]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return roots.good(tmp_path_factory.mktemp("libraries") / "root")


@pytest.fixture
def root(made, tmp_path):
    return shutil.copytree(made, tmp_path / "root", symlinks=True)


def findings(tmp_path, *trees, check="needs", **options):
    """(path, subject) of one check's findings; no other check may have any but "waiver"."""
    report = lint(roots.spec(*trees, roots.cached(tmp_path, *trees), **options))
    assert {f.check for f in report["findings"]} <= {check}
    return [(f.path, f.subject) for f in report["findings"]]


def needing(tmp_path, output, name, **options):
    """A library that needs another by name, the other left out."""
    other = elf.library(tmp_path / "aside" / name, soname=name)
    return elf.library(output, needs=(other,), **options)


def test_a_good_root_has_no_findings(tmp_path, root):
    assert findings(tmp_path, root) == []


def relative_pair(tmp_path):
    """Two wheels, the library of one needing the other's by a relative run path (case 39)."""
    low = elf.library(tmp_path / "made/liblow.so.1", soname="liblow.so.1",
                      source="int low(void) { return 39; }\n")
    high = elf.library(tmp_path / "made/libhigh.so", soname="libhigh.so", needs=(low,),
                       runpath="$ORIGIN/../../nvidia/low/lib",
                       source="int low(void); int high(void) { return low(); }\n")
    return (wheels.make(tmp_path, "low", {"nvidia/low/lib/liblow.so.1": low.read_bytes()}),
            wheels.make(tmp_path, "high", {"torch/lib/libhigh.so": high.read_bytes()}))


def test_a_relative_run_path_between_wheels_loads_and_passes(tmp_path, root):  # case 39
    low, high = relative_pair(tmp_path)
    merged = tmp_path / "merged"
    build_wheels(wheels.spec(low, high), merged, tmp_path / "m", 1)
    file = merged / DEEP / "torch/lib/libhigh.so"
    assert ctypes.CDLL(str(file)).high() == 39
    assert findings(tmp_path, root, merged) == []


def test_the_wheels_may_lie_in_layers_of_their_own(tmp_path, root):  # case 39
    trees = []
    for number, pin in enumerate(relative_pair(tmp_path)):
        trees.append(tmp_path / f"layer{number}")
        build_wheels(wheels.spec(pin), trees[-1], tmp_path / "m", 1)
    assert findings(tmp_path, root, *trees) == []
    # The control: one layer alone does not have what the other needs.
    assert findings(tmp_path, root, trees[1]) == [(f"/{DEEP}/torch/lib/libhigh.so", "liblow.so.1")]


def test_a_run_path_is_followed_where_the_file_is_not_where_it_was_built(tmp_path, root):
    low = elf.library(root / DEEP / "a/liblow.so.1", soname="liblow.so.1")
    elf.library(root / DEEP / "b/libhigh.so", needs=(low,), runpath="$ORIGIN/../wrong")
    assert findings(tmp_path, root) == [(f"/{DEEP}/b/libhigh.so", "liblow.so.1")]


def test_an_unresolved_need_is_told(tmp_path, root):  # case 39
    needing(tmp_path, root / DEEP / "x.so", "libmissing.so.3")
    assert findings(tmp_path, root) == [(f"/{DEEP}/x.so", "libmissing.so.3")]


@pytest.mark.parametrize("name", ["libcuda.so.1", "libnvidia-ml.so.1"])
def test_the_drivers_libraries_alone_may_be_missing(tmp_path, root, name):  # case 39
    needing(tmp_path, root / DEEP / "x.so", name)
    assert findings(tmp_path, root) == []


@pytest.mark.parametrize("name", ["libcuda.so", "libcudart.so.13", "libcuda.so.12",
                                  "libcublas.so.1"])
def test_names_like_the_drivers_may_not(tmp_path, root, name):  # case 39
    needing(tmp_path, root / DEEP / "x.so", name)
    assert findings(tmp_path, root) == [(f"/{DEEP}/x.so", name)]


def test_a_driver_library_of_the_images_own_is_told(tmp_path, root):  # trap 13
    elf.library(root / TRIPLET / "libcuda.so.1", soname="libcuda.so.1")
    needing(tmp_path, root / DEEP / "x.so", "libcuda.so.1")
    assert findings(tmp_path, root) == [(f"/{DEEP}/x.so", "libcuda.so.1")]


def test_the_cache_leads_to_libraries_and_a_folder_outside_it_does_not(tmp_path, root):  # case 46
    low = elf.library(root / "opt/deep/liblow.so.1", soname="liblow.so.1")
    elf.library(root / DEEP / "x.so", needs=(low,))
    assert findings(tmp_path, root) == [(f"/{DEEP}/x.so", "liblow.so.1")]
    roots.text(root, "etc/ld.so.conf.d/deep.conf", "/opt/deep\n")
    assert findings(tmp_path, root) == []


def loads(*files):
    """Whether the real loader takes the last of these, loaded one after the other."""
    code = "import ctypes, sys\nfor file in sys.argv[1:]: ctypes.CDLL(file)"
    return subprocess.run([sys.executable, "-c", code, *files], capture_output=True).returncode == 0


@pytest.mark.parametrize(("kind", "fine"), [("rpath", True), ("runpath", False)])
def test_rpath_holds_for_what_is_loaded_further_down_and_run_path_not(
    tmp_path, root, kind, fine
):
    bottom = elf.library(root / DEEP / "libs/libbottom.so.1", soname="libbottom.so.1")
    middle = elf.library(root / DEEP / "libs/libmiddle.so.1", soname="libmiddle.so.1",
                         needs=(bottom,))
    top = elf.library(root / DEEP / "pkg/top.so", needs=(middle,), **{kind: "$ORIGIN/../libs"})
    assert loads(top) == fine
    expected = [] if fine else [(f"/{DEEP}/libs/libmiddle.so.1", "libbottom.so.1")]
    assert findings(tmp_path, root) == expected


def test_a_run_path_turns_an_inherited_rpath_off(tmp_path, root):
    bottom = elf.library(root / DEEP / "libs/libbottom.so.1", soname="libbottom.so.1")
    middle = elf.library(root / DEEP / "libs/libmiddle.so.1", soname="libmiddle.so.1",
                         needs=(bottom,), runpath="$ORIGIN/nowhere")
    top = elf.library(root / DEEP / "pkg/top.so", needs=(middle,), rpath="$ORIGIN/../libs")
    assert not loads(top)
    assert findings(tmp_path, root) == [(f"/{DEEP}/libs/libmiddle.so.1", "libbottom.so.1")]


def test_origin_is_where_a_library_was_opened_not_where_its_link_leads(tmp_path, root):
    low = elf.library(root / DEEP / "pkg/liblow.so.1", soname="liblow.so.1")
    middle = elf.library(root / DEEP / "pkg/libmiddle.so.1", soname="libmiddle.so.1",
                         needs=(low,), runpath="$ORIGIN")
    (root / DEEP / "links").mkdir()
    (root / DEEP / "links/libmiddle.so.1").symlink_to("../pkg/libmiddle.so.1")
    top = elf.library(root / DEEP / "top/top.so", needs=(middle,), runpath="$ORIGIN/../links")
    assert not loads(top)
    [(path, needed)] = findings(tmp_path, root)
    assert (posixpath.normpath(path), needed) == (f"/{DEEP}/links/libmiddle.so.1", "liblow.so.1")
    (root / DEEP / "links/liblow.so.1").symlink_to("../pkg/liblow.so.1")
    assert loads(top)
    assert findings(tmp_path, root) == []


def test_a_library_without_a_relative_path_found_in_the_standard_folders(tmp_path, root):
    low = elf.library(root / TRIPLET / "liblow.so.1", soname="liblow.so.1")
    elf.library(root / DEEP / "x.so", needs=(low,))
    assert findings(tmp_path, root) == []


@pytest.mark.parametrize(("machine", "said"), [(183, "aarch64"), (3, "unknown"), (40, "unknown")])
def test_a_file_for_another_machine_is_told_by_name(tmp_path, root, machine, said):  # case 6
    (root / DEEP / "foreign.so").write_bytes(elf.header(machine))
    report = lint(roots.spec(root, roots.cached(tmp_path, root)))
    [found] = report["findings"]
    assert (found.check, found.path) == ("machine", f"/{DEEP}/foreign.so")
    assert said in found.why and "x86_64" in found.why


def test_an_x86_file_in_an_image_for_arm_is_told(tmp_path, root):  # case 6
    report = lint(roots.spec(root, machine="aarch64"))
    told = {f.path for f in report["findings"] if f.check == "machine"}
    assert {f"/{LIBC}", "/usr/bin/dash", "/usr/lib64/ld-linux-x86-64.so.2"} == {
        path for path in told if "sbin" not in path}


def test_gpu_code_in_elf_form_is_no_library(tmp_path, root):  # case 6, the control
    (root / DEEP / "kernel.cubin").write_bytes(elf.header(190))
    assert findings(tmp_path, root, check="machine") == []


def test_a_damaged_library_is_told(tmp_path, root):
    whole = (root / LIBC).read_bytes()
    (root / DEEP / "cut.so").write_bytes(whole[:300])
    assert findings(tmp_path, root, check="machine") == [(f"/{DEEP}/cut.so", "damaged")]


def test_a_symbol_version_newer_than_the_c_librarys_is_told(tmp_path, root):  # case 40
    newer = roots.libc(tmp_path / "newer/libc.so.6", "2.2.5", "2.34", "2.36", "2.39")
    for name, function in (("new", "f_2_39"), ("old", "f_2_36")):
        elf.compile_c(root / DEEP / f"pkg/{name}.so", START.format(f=function), "-shared",
                      "-fPIC", "-nostdlib", newer)
    # Its tag says otherwise, so that only its symbols give it away.
    roots.wheel_tag(root, "cp313-cp313-manylinux_2_17_x86_64", name="new")
    report = lint(roots.spec(root, roots.cached(tmp_path, root)))
    [found] = report["findings"]
    assert (found.check, found.path, found.subject) == (
        "versions", f"/{DEEP}/pkg/new.so", "GLIBC_2.39")
    assert "libc.so.6" in found.why and "up to GLIBC_2.36" in found.why


def test_object_files_need_nothing(tmp_path, root):
    elf.compile_c(root / DEEP / "x.o", "int g(void); int f(void) { return g(); }\n", "-c")
    assert findings(tmp_path, root) == []


@pytest.mark.parametrize("where", ["aside", "real"])
def test_origin_is_the_folder_of_the_link_that_is_opened(tmp_path, root, where):
    """The need of a library opened by a link is sought beside the link."""
    real, aside = root / DEEP / "real/libs", root / DEEP / "aside"
    bottom = elf.library(root / DEEP / where / ("libs" if where == "real" else "") /
                         "libbottom.so.1", soname="libbottom.so.1")
    middle = elf.library(real / "libmiddle.so.1", soname="libmiddle.so.1", needs=(bottom,),
                         runpath="$ORIGIN")
    aside.mkdir(exist_ok=True)
    (aside / "libmiddle.so.1").symlink_to("../real/libs/libmiddle.so.1")
    top = elf.library(root / DEEP / "top.so", needs=(middle,), runpath="$ORIGIN/aside")
    # The real loader agrees: only what lies beside the link is found.
    assert loads(top) == (where == "aside")
    opened = {"aside": f"/{DEEP}/real/libs/libmiddle.so.1",  # opened by its own name
              "real": f"/{DEEP}/aside/libmiddle.so.1"}
    assert findings(tmp_path, root) == [(opened[where], "libbottom.so.1")]


def test_a_run_path_through_a_linked_folder(tmp_path, root):  # trap 13: lib64 -> lib
    low = elf.library(root / DEEP / "cu13/lib/liblow.so.1", soname="liblow.so.1")
    (root / DEEP / "cu13/lib64").symlink_to("lib")
    high = elf.library(root / DEEP / "x.so", needs=(low,), runpath="$ORIGIN/cu13/lib64")
    assert loads(high) and findings(tmp_path, root) == []


def test_a_parent_folder_is_the_linked_ones_own(tmp_path, root):
    """`link/..` is the parent of where the link leads, as the kernel has it."""
    low = elf.library(root / "opt/deep/low/liblow.so.1", soname="liblow.so.1")
    (root / "opt/deep/pkg").mkdir()
    (root / DEEP / "link").symlink_to(root / "opt/deep/pkg")
    high = elf.library(root / DEEP / "x.so", needs=(low,), runpath="$ORIGIN/link/../low")
    assert loads(high)
    (root / DEEP / "link").unlink()
    (root / DEEP / "link").symlink_to("/opt/deep/pkg")
    assert findings(tmp_path, root) == []
    (root / DEEP / "link").unlink()
    (root / DEEP / "link").mkdir()
    assert findings(tmp_path, root) == [(f"/{DEEP}/x.so", "liblow.so.1")]
