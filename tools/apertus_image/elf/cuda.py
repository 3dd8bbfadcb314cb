"""Builder: what CUDA's wheels leave out of a toolkit (trap 13).

    python3 -m apertus_image.elf.cuda SPEC OUT MANIFEST

The wheels' tree nvidia/cu13 has neither lib64 nor a library without its version nor a
stub of the driver's, so nvcc compiles but nothing links. OUT adds those beside the
wheels' files, /usr/local/cuda, and a line for the loader.

Spec: {"machine", "prefix", "python", "trees": [trees that hold the wheels]}.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from apertus_image.elf.stub import driver_functions, stub
from apertus_image.errors import UserError, run_builder
from apertus_image.tree import manifest
from apertus_image.tree.machine import machine
from apertus_image.tree.view import View

__all__ = ["build"]

TOOLKIT = "nvidia/cu13"
FEWEST_FUNCTIONS = 300  # cuda.h of 13.0 declares over 500; far fewer means it was misread


def build(spec: dict, out: Path, manifest_file: Path) -> None:
    """Complete the toolkit.

    Raises:
        UserError: there is no toolkit, or no cuda.h to take the driver's functions from.
    """
    view = View(Path(tree) for tree in spec["trees"])
    site = f"{spec['prefix']}/lib/python{spec['python']}/site-packages"
    toolkit = f"{site}/{TOOLKIT}"
    header = view.physical(f"{toolkit}/include/cuda.h")
    if header is None:
        raise UserError("the wheels hold no CUDA toolkit", where=toolkit, expected="include/cuda.h",
                        next_step="is nvidia-cuda-runtime in nix/pins/wheels.json?")
    functions = driver_functions(header.read_text(errors="replace"))
    if len(functions) < FEWEST_FUNCTIONS:
        raise UserError("cuda.h declares too few functions to be read right",
                        where=f"{toolkit}/include/cuda.h",
                        expected=f"at least {FEWEST_FUNCTIONS}", got=len(functions))
    target = Path(f"{out}{toolkit}")
    (target / "lib/stubs").mkdir(parents=True)
    (target / "lib64").symlink_to("lib")
    for name, versioned in _unversioned(view.names(f"{toolkit}/lib")).items():
        (target / "lib" / name).symlink_to(versioned)
    stubs = target / "lib/stubs/libcuda.so"
    stubs.write_bytes(stub("libcuda.so.1", functions, machine(spec["machine"])))
    stubs.chmod(0o755)
    local = out / "usr/local"
    local.mkdir(parents=True)
    (local / "cuda").symlink_to(toolkit)
    conf = out / "etc/ld.so.conf.d/apertus-cuda.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("".join(f"{folder}\n" for folder in _library_folders(view, site)))
    manifest.write(manifest.scan(out, "generated"), manifest_file)


def _unversioned(names: list[str]) -> dict[str, str]:
    """`libX.so` -> `libX.so.N` for every library whose bare name is missing."""
    found = {}
    for name in sorted(names, key=len, reverse=True):
        match = re.fullmatch(r"(lib[^/]+\.so)\.[0-9.]+", name)
        if match and match[1] not in names:
            found[match[1]] = name
    return found


def _library_folders(view: View, site: str) -> list[str]:
    """The lib folders below nvidia/: the toolkit's first, then cuDNN's, NCCL's and so on."""
    parts = [name for name in view.names(f"{site}/nvidia")
             if any(".so" in each for each in view.names(f"{site}/nvidia/{name}/lib"))]
    ordered = sorted(parts, key=lambda name: (name != posixpath.basename(TOOLKIT), name))
    return [f"{site}/nvidia/{name}/lib" for name in ordered]


if __name__ == "__main__":
    run_builder(build)
