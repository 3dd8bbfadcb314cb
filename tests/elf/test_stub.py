"""The stub of the driver's library: it links, it answers 34, and every reader takes it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess

import pytest
from apertus_image.elf.reader import read
from apertus_image.elf.stub import driver_functions, stub
from apertus_image.tree.machine import MACHINES
from elftools.elf.elffile import ELFFile
from support import elf
from support.elf import needs_gcc

NAMES = ["cuInit", "cuMemAlloc_v2", "cuCtxCreate_v4", *(f"cuFunction{n}" for n in range(500))]

HEADER = """
#define CUDA_VERSION 13000
#define cuMemAlloc                          cuMemAlloc_v2
  #  define cuCtxCreate cuCtxCreate_v4
#define cuNotAName 3
#define __CUDA_API_PER_THREAD(api) api ## _ptds
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI
cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
typedef void (CUDA_CB *CUhostFn)(void *userData);
// CUresult cuComment(void);
CUresult CUDAAPI cuGetErrorString (CUresult error, const char **pStr);
"""


@pytest.fixture
def library(tmp_path):
    """The stub of this machine, under the name that `-lcuda` finds."""
    file = tmp_path / "stubs/libcuda.so"
    file.parent.mkdir()
    file.write_bytes(stub("libcuda.so.1", NAMES, MACHINES["x86_64"]))
    return file


def symbols(file):
    with file.open("rb") as data:
        return {s.name: s for s in ELFFile(data).get_section_by_name(".dynsym").iter_symbols()}


@pytest.mark.parametrize("name", MACHINES)
def test_its_headers_say_what_it_is(tmp_path, name):  # trap 13, case 6
    file = tmp_path / "libcuda.so"
    file.write_bytes(stub("libcuda.so.1", NAMES, MACHINES[name]))
    found = read(file)
    assert (found.machine, found.type) == (MACHINES[name].elf_machine, "ET_DYN")
    assert (found.soname, found.needed, found.dynamic) == ("libcuda.so.1", (), True)
    known = symbols(file)
    assert set(known) == {"", *NAMES}
    assert {s["st_info"]["type"] for n, s in known.items() if n} == {"STT_FUNC"}


@pytest.mark.parametrize(("name", "code"), [
    ("x86_64", "b822000000c3"),  # mov eax, 34; ret
    ("aarch64", "40048052c0035fd6"),  # mov w0, #34; ret
])
def test_every_function_is_the_one_that_returns_34(tmp_path, name, code):  # trap 13
    file = tmp_path / "libcuda.so"
    file.write_bytes(stub("libcuda.so.1", NAMES, MACHINES[name]))
    whole = file.read_bytes()
    for symbol, entry in symbols(file).items():
        if symbol:
            start = entry["st_value"]
            assert whole[start : start + entry["st_size"]].hex() == code


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.skipif(not shutil.which("readelf"), reason="not run: there is no readelf")
def test_readelf_has_nothing_to_complain_of(tmp_path, name):
    file = tmp_path / "libcuda.so"
    file.write_bytes(stub("libcuda.so.1", NAMES, MACHINES[name]))
    result = subprocess.run(["readelf", "-aW", "--dyn-syms", file], capture_output=True, text=True,
                            check=True)
    assert result.stderr == "" and "Warning" not in result.stdout
    assert "cuMemAlloc_v2" in result.stdout and "libcuda.so.1" in result.stdout


@pytest.mark.parametrize("name", MACHINES)
def test_segments_can_be_mapped_and_no_stack_is_executable(tmp_path, name):
    file = tmp_path / "libcuda.so"
    file.write_bytes(stub("libcuda.so.1", NAMES, MACHINES[name]))
    with file.open("rb") as data:
        segments = [s.header for s in ELFFile(data).iter_segments()]
    loads = [s for s in segments if s["p_type"] == "PT_LOAD"]
    for each in loads:
        assert each["p_offset"] % each["p_align"] == each["p_vaddr"] % each["p_align"]
        assert each["p_offset"] + each["p_filesz"] <= file.stat().st_size
        assert each["p_flags"] & 3 != 3  # never writable and executable
    assert loads[0]["p_vaddr"] + loads[0]["p_memsz"] <= loads[1]["p_vaddr"]
    [stack] = [s for s in segments if s["p_type"] == "PT_GNU_STACK"]
    assert not stack["p_flags"] & 1


@pytest.mark.parametrize("name", MACHINES)
def test_the_hash_table_finds_every_name_and_no_other(tmp_path, name):
    file = tmp_path / "libcuda.so"
    file.write_bytes(stub("libcuda.so.1", NAMES, MACHINES[name]))
    with file.open("rb") as data:
        table = ELFFile(data).get_section_by_name(".hash")
        for each in NAMES:
            assert table.get_symbol(each).name == each
        assert table.get_symbol("cuNotThere") is None


@needs_gcc
def test_a_program_links_and_gets_34(tmp_path, library):  # trap 13
    source = ("int cuInit(unsigned); int cuMemAlloc_v2(void **, unsigned long);\n"
              "int main(void) { void *p; return cuInit(0) == 34 ? cuMemAlloc_v2(&p, 1) : 1; }\n")
    program = elf.program(tmp_path / "program", f"-L{library.parent}", "-lcuda", source=source)
    assert "libcuda.so.1" in read(program).needed
    (tmp_path / "libcuda.so.1").symlink_to(library)
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "LD_BIND_NOW": "1"}
    assert subprocess.run([program], env=environment).returncode == 34
    # Without a driver the loader finds none: the stub's own name is not what is asked for.
    assert subprocess.run([program], env={"LD_LIBRARY_PATH": str(library.parent)},
                          capture_output=True).returncode == 127


@needs_gcc
def test_a_shared_library_links_with_no_symbol_undefined(tmp_path, library):  # trap 13
    source = "int cuInit(unsigned);\nint start(void) { return cuInit(0); }\n"
    options = ["-shared", "-fPIC", "-Wl,-z,defs", f"-L{library.parent}", "-lcuda"]
    built = elf.compile_c(tmp_path / "libext.so", source, *options)
    assert read(built).needed[0] == "libcuda.so.1"
    with pytest.raises(subprocess.CalledProcessError):
        elf.compile_c(tmp_path / "libbad.so", source.replace("cuInit", "cuNotThere"), *options)


@needs_gcc
def test_the_loader_takes_every_function(library):
    loaded = ctypes.CDLL(os.fspath(library))
    assert {getattr(loaded, name)() for name in NAMES} == {34}


@pytest.mark.parametrize(("name", "digest"), [
    ("x86_64", "8a7c7681ed4f4bf4"), ("aarch64", "4dd479dfeb368e2f"),
])
def test_its_bytes_do_not_depend_on_order_and_are_known(name, digest):
    found = {stub("libcuda.so.1", names, MACHINES[name])
             for names in (NAMES, NAMES[::-1], [*NAMES, *NAMES])}
    assert len(found) == 1
    assert hashlib.sha256(found.pop()).hexdigest()[:16] == digest


def test_functions_are_taken_from_the_header():  # trap 13
    assert driver_functions(HEADER) == [
        "cuCtxCreate_v4", "cuGetErrorString", "cuInit", "cuMemAlloc", "cuMemAlloc_v2"]
