"""The toolkit completed: nvcc's links, the driver's stub, and folders for the loader."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from apertus_image.elf.cuda import build
from apertus_image.elf.ldcache import build as build_cache
from apertus_image.elf.ldcache import parse
from apertus_image.elf.reader import read
from apertus_image.errors import UserError
from apertus_image.tree import manifest
from apertus_image.tree.machine import MACHINES
from support import elf
from support.elf import needs_gcc
from support.wheels import PREFIX, PYTHON, SITE, content

TOOLKIT = f"{SITE}/nvidia/cu13"
HEADER = "".join(f"CUresult CUDAAPI cuFunction{n}(int);\n" for n in range(400))


def wheels(tmp_path, header=HEADER):
    """A tree as CUDA's wheels make it."""
    root = tmp_path / "wheels"
    for path, text in {
        "cu13/include/cuda.h": header, "cu13/bin/nvcc": "nvcc",
        "cu13/lib/libcudart.so.13": "x", "cu13/lib/libnvrtc.so.13": "x",
        "cu13/lib/libnvrtc-builtins.so.13.0": "x", "cu13/lib/libcufile.so.0": "x",
        "cu13/lib/libhas.so": "x", "cu13/lib/libhas.so.1": "x", "cu13/lib/libstatic.a": "x",
        "aerial/lib/liba.so.1": "x", "cudnn/lib/libcudnn.so.9": "x",
        "nccl/lib/libnccl.so.2": "x", "nothing/lib/notes.txt": "x",
        "headers/include/h.h": "x",
    }.items():
        file = root / SITE[1:] / "nvidia" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def complete(tmp_path, *trees, machine="x86_64"):
    out = tmp_path / "out"
    build({"machine": machine, "prefix": PREFIX, "python": PYTHON,
           "trees": [str(tree) for tree in trees]}, out, tmp_path / "m")
    return out


def test_what_is_added(tmp_path):  # trap 13
    found = content(complete(tmp_path, wheels(tmp_path)))
    assert found["/usr/local/cuda"] == TOOLKIT
    links = {path: target for path, target in found.items() if isinstance(target, str)}
    assert links == {
        "/usr/local/cuda": TOOLKIT, f"{TOOLKIT}/lib64": "lib",
        f"{TOOLKIT}/lib/libcudart.so": "libcudart.so.13",
        f"{TOOLKIT}/lib/libnvrtc.so": "libnvrtc.so.13",
        f"{TOOLKIT}/lib/libnvrtc-builtins.so": "libnvrtc-builtins.so.13.0",
        f"{TOOLKIT}/lib/libcufile.so": "libcufile.so.0",
    }
    files = [path for path, held in found.items() if isinstance(held, tuple)]
    assert sorted(files) == ["/etc/ld.so.conf.d/apertus-cuda.conf",
                             f"{TOOLKIT}/lib/stubs/libcuda.so"]


def test_nothing_of_the_wheels_is_replaced(tmp_path):
    before = wheels(tmp_path)
    added = content(complete(tmp_path, before))
    shared = set(added) & set(content(before))
    assert all(added[path] is None for path in shared)  # folders alone


def test_the_loader_is_told_of_folders_with_libraries_the_toolkits_first(tmp_path):  # trap 15
    found = content(complete(tmp_path, wheels(tmp_path)))
    assert found["/etc/ld.so.conf.d/apertus-cuda.conf"][1].decode().splitlines() == [
        f"{SITE}/nvidia/{name}/lib" for name in ("cu13", "aerial", "cudnn", "nccl")]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_stub_is_of_the_images_machine(tmp_path, machine):  # cases 6, trap 13
    out = complete(tmp_path, wheels(tmp_path), machine=machine)
    found = read(out / TOOLKIT[1:] / "lib/stubs/libcuda.so")
    assert (found.machine, found.soname) == (MACHINES[machine].elf_machine, "libcuda.so.1")


def test_several_trees_are_seen_as_one(tmp_path):
    whole = wheels(tmp_path)
    part = tmp_path / "part"
    source = whole / SITE[1:] / "nvidia/nccl"
    target = part / SITE[1:] / "nvidia/nccl"
    target.parent.mkdir(parents=True)
    shutil.move(source, target)
    text = content(complete(tmp_path, part, whole))["/etc/ld.so.conf.d/apertus-cuda.conf"][1]
    assert text.decode().splitlines()[-1] == f"{SITE}/nvidia/nccl/lib"


def test_without_a_toolkit(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no CUDA toolkit"):
        complete(tmp_path, tmp_path / "empty")
    assert not (tmp_path / "out").exists()


def test_a_header_that_is_not_understood(tmp_path):
    with pytest.raises(UserError, match="too few functions") as error:
        complete(tmp_path, wheels(tmp_path, "CUresult CUDAAPI cuInit(unsigned);\n"))
    assert error.value.got == 1


def test_the_manifest_is_what_a_scan_of_the_tree_says(tmp_path):
    out = complete(tmp_path, wheels(tmp_path))
    written = {e.path: e.content() for e in manifest.read(tmp_path / "m")}
    assert written == {e.path: e.content() for e in manifest.scan(out, "x")}


@needs_gcc
def test_a_kernel_library_links_in_the_completed_toolkit(tmp_path):  # trap 13
    trees = wheels(tmp_path)
    lib = TOOLKIT[1:] + "/lib"
    real = elf.library(tmp_path / "made/libcudart.so.13", soname="libcudart.so.13",
                       source="int cudaFree(void *p) { return 0; }\n")
    shutil.copyfile(real, trees / lib / "libcudart.so.13")
    out = complete(tmp_path, trees)
    shutil.copytree(trees, out, dirs_exist_ok=True)
    home = out / TOOLKIT[1:]
    source = ("int cudaFree(void *); int cuFunction7(int);\n"
              "int f(void) { return cudaFree(0) + cuFunction7(0); }\n")
    # As FlashInfer links what nvcc compiled.
    options = ["-shared", "-fPIC", "-nostdlib", "-Wl,-z,defs", f"-L{home}/lib64",
               f"-L{home}/lib64/stubs", "-lcudart", "-lcuda"]
    found = read(elf.compile_c(tmp_path / "kernel.so", source, *options))
    assert found.needed == ("libcudart.so.13", "libcuda.so.1")
    # The control: the wheels alone do not link.
    home = trees / TOOLKIT[1:]
    options[4:6] = [f"-L{home}/lib64", f"-L{home}/lib64/stubs"]
    with pytest.raises(subprocess.CalledProcessError):
        elf.compile_c(tmp_path / "bad.so", source, *options)


@needs_gcc
def test_the_stub_is_never_in_the_loaders_cache(tmp_path):  # traps 13, 15; case 46
    trees = wheels(tmp_path)
    lib = TOOLKIT[1:] + "/lib"
    elf.library(trees / lib / "libcudart.so.13", soname="libcudart.so.13")
    out = complete(tmp_path, trees)
    (tmp_path / "base/etc").mkdir(parents=True)
    (tmp_path / "base/etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    roots = [str(tmp_path / "base"), str(trees), str(out)]
    build_cache({"machine": "x86_64", "roots": roots}, tmp_path / "cache", tmp_path / "c.m")
    entries = {e.name: e.path for e in
               parse((tmp_path / "cache/etc/ld.so.cache").read_bytes())}
    assert entries == {"libcudart.so.13": f"/{lib}/libcudart.so.13",
                       "libcudart.so": f"/{lib}/libcudart.so"}
