"""What is read of ELF files, with readelf as referee."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.elf.reader import is_elf, read
from support import elf
from support.elf import needs_gcc

needs_readelf = pytest.mark.skipif(not shutil.which("readelf"), reason="not run: no readelf")


def readelf(option, file):
    return subprocess.run(["readelf", "-W", option, file], capture_output=True, text=True,
                          check=True).stdout


@needs_gcc
def test_a_library_with_everything(tmp_path):
    first = elf.library(tmp_path / "libfirst.so.1", soname="libfirst.so.1")
    second = elf.library(tmp_path / "libsecond.so")
    found = read(elf.library(tmp_path / "libx.so.2.5", soname="libx.so.2", needs=(second, first),
                             runpath="$ORIGIN/../lib:${ORIGIN}:/opt/lib"))
    assert (found.machine, found.type, found.soname, found.dynamic) == (
        62, "ET_DYN", "libx.so.2", True)
    # A library without a soname is needed by the path it was linked with.
    assert found.needed == (str(second), "libfirst.so.1")
    assert found.runpath == ("$ORIGIN/../lib", "${ORIGIN}", "/opt/lib")
    assert found.rpath == () and found.interpreter is None


@needs_gcc
def test_rpath_and_runpath_are_told_apart(tmp_path):
    found = read(elf.library(tmp_path / "libx.so", rpath="$ORIGIN"))
    assert (found.rpath, found.runpath, found.soname) == (("$ORIGIN",), (), None)


@needs_gcc
@needs_readelf
def test_a_program_agrees_with_readelf(tmp_path):
    file = elf.program(tmp_path / "program", "-Wl,--no-as-needed", "-lm")
    found, dynamic = read(file), readelf("-d", file)
    assert list(found.needed) == re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    assert "libc.so.6" in found.needed
    assert found.interpreter == re.search(r"interpreter: (.*)\]", readelf("-l", file))[1]
    versions = {name for _, names in found.versions.items() for name in names}
    wanted = set(re.findall(r"Name: (\S+)  Flags", readelf("-V", file)))
    assert wanted and versions == wanted


@needs_gcc
@needs_readelf
def test_versions_of_the_c_library_agree_with_readelf():  # case 40
    file = Path("/lib/x86_64-linux-gnu/libc.so.6")
    shown = readelf("-V", file).partition("Version definition section")[2]
    shown = shown.partition("Version needs section")[0]
    defined = {each for each in re.findall(r"Index: \d+  Cnt: \d+  Name: (\S+)", shown)}
    assert "GLIBC_2.34" in defined and read(file).defines == defined
    assert read(file, versions=False).defines == frozenset()


@needs_gcc
def test_a_static_program_is_not_dynamic(tmp_path):
    source = "void _start(void) { for (;;); }\n"
    found = read(elf.compile_c(tmp_path / "p", source, "-nostdlib", "-static"))
    assert not found.dynamic and found.needed == () and found.type == "ET_EXEC"


@needs_gcc
def test_an_object_file(tmp_path):
    found = read(elf.compile_c(tmp_path / "x.o", "int f(void) { return 1; }\n", "-c"))
    assert found.type == "ET_REL" and not found.dynamic


@pytest.mark.parametrize("machine", [62, 183, 190, 3, 243, 60001])
def test_machines_are_numbers_known_or_not(tmp_path, machine):  # case 6
    file = tmp_path / "x"
    file.write_bytes(elf.header(machine))
    assert read(file).machine == machine


@pytest.mark.parametrize("text", [b"", b"\x7f", b"#!/bin/sh\n", b"\x7fELG" + bytes(60),
                                  b"!<arch>\n"])
def test_what_is_no_elf_file(tmp_path, text):
    file = tmp_path / "x"
    file.write_bytes(text)
    assert not is_elf(file) and read(file) is None


@needs_gcc
def test_a_file_cut_short_anywhere_never_ends_in_a_traceback(tmp_path):
    whole = elf.library(tmp_path / "libx.so", soname="libx.so", runpath="/x").read_bytes()
    file = tmp_path / "cut"
    seen = set()
    for length in (*range(4, 1200, 7), *range(1200, len(whole), 97)):
        file.write_bytes(whole[:length])
        assert is_elf(file)
        seen.add(read(file) is None)
    assert True in seen


@needs_gcc
def test_damage_never_ends_in_a_traceback(tmp_path):
    whole = elf.library(tmp_path / "libx.so", soname="libx.so", runpath="/x").read_bytes()
    file = tmp_path / "damaged"
    for place in range(4, 900):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        read(file)
    file.write_bytes(whole)
    assert read(file).soname == "libx.so"
