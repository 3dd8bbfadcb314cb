"""ELF files for tests: made by the host's compiler, and headers of any machine by hand."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

__all__ = ["HOST", "compile_c", "header", "library", "needs_gcc", "program"]

HOST = platform.machine()
needs_gcc = pytest.mark.skipif(
    not shutil.which("gcc") or HOST != "x86_64" or not Path("/lib64/ld-linux-x86-64.so.2").exists(),
    reason="not run: needs gcc on an x86_64 machine",
)


def compile_c(output: Path, source: str, *options: str | Path) -> Path:
    """Compile C to `output`."""
    output.parent.mkdir(parents=True, exist_ok=True)
    text = output.with_name(output.name + ".c")
    text.write_text(source)
    subprocess.run(["gcc", "-o", output, text, *options], check=True, capture_output=True,
                   env={"PATH": os.environ["PATH"], "LC_ALL": "C"})
    text.unlink()
    return output


def library(
    output: Path, *options: str | Path, soname: str | None = None, needs: tuple[Path, ...] = (),
    runpath: str | None = None, rpath: str | None = None, source: str | None = None,
) -> Path:
    """A shared library without the C library, with exactly these needs and run paths."""
    flags = ["-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed"]
    if soname:
        flags.append(f"-Wl,-soname,{soname}")
    if runpath:
        flags += [f"-Wl,-rpath,{runpath}", "-Wl,--enable-new-dtags"]
    if rpath:
        flags += [f"-Wl,-rpath,{rpath}", "-Wl,--disable-new-dtags"]
    name = "f_" + "".join(c if c.isalnum() else "_" for c in output.name)
    text = source or f"int {name}(void) {{ return 1; }}\n"
    return compile_c(output, text, *flags, *options, *needs)


def program(output: Path, *options: str | Path, source: str = "int main(void) { return 0; }\n"
            ) -> Path:
    """A program with the C library."""
    return compile_c(output, source, *options)


def header(machine: int, type: int = 3) -> bytes:
    """The header of an ELF file of any machine, with nothing behind it."""
    return struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + bytes(9), type, machine, 1, 0, 0, 0,
                       0, 64, 56, 0, 64, 0, 0)
