"""The stub for aarch64 against that machine's own linker, and its code under emulation."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.elf.reader import read
from apertus_image.elf.stub import stub
from apertus_image.tree.machine import MACHINES

LD, AS = shutil.which("aarch64-linux-gnu-ld"), shutil.which("aarch64-linux-gnu-as")
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
needs_ld = pytest.mark.skipif(
    not (LD and AS), reason="not run: needs binutils-aarch64-linux-gnu")

# Leaves with what the driver's function returns (exit is system call 93).
SOURCE = ".text\n.globl _start\n_start:\n bl {name}\n mov x8, #93\n svc #0\n"


def link(tmp_path: Path, name: str, *options: str) -> Path:
    """Link a program that calls one function of the stub."""
    stubs = tmp_path / "stubs"
    stubs.mkdir(exist_ok=True)
    (stubs / "libcuda.so").write_bytes(stub("libcuda.so.1", ["cuInit"], MACHINES["aarch64"]))
    source, object_, output = (tmp_path / f"p{end}" for end in (".s", ".o", ""))
    source.write_text(SOURCE.format(name=name))
    subprocess.run([AS, source, "-o", object_], check=True)
    subprocess.run([LD, *options, object_, f"-L{stubs}", "-lcuda", "-o", output], check=True,
                   capture_output=True)
    return output


@needs_ld
@pytest.mark.parametrize("options", [(), ("-shared", "-z", "defs")], ids=["program", "library"])
def test_it_links(tmp_path, options):  # trap 13, case 6
    assert read(link(tmp_path, "cuInit", *options)).needed == ("libcuda.so.1",)
    with pytest.raises(subprocess.CalledProcessError):
        link(tmp_path, "cuNotThere", *options)


@needs_ld
@pytest.mark.nix
@pytest.mark.skipif(not QEMU, reason="not run: needs qemu-user for aarch64")
def test_it_answers_34(tmp_path):  # trap 13
    loader = MACHINES["aarch64"].loader
    roots = [root for root in Path("/nix/store").glob("*-userland-aarch64")
             if Path(f"{root}{loader}").exists()]
    if not roots:
        pytest.skip("not run: no userland for aarch64 is in the store")
    program = link(tmp_path, "cuInit", "-dynamic-linker", loader)
    (tmp_path / "stubs/libcuda.so").rename(tmp_path / "libcuda.so.1")
    result = subprocess.run([QEMU, "-L", roots[0], "-E", f"LD_LIBRARY_PATH={tmp_path}", program])
    assert result.returncode == 34
