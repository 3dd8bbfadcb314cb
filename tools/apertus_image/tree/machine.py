"""The machines an image can be for, and what each world calls them: one table.

nix/machines.nix holds the part that Nix needs; a test compares the two (case 6).
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from apertus_image.errors import UserError

__all__ = ["MACHINES", "Machine", "machine", "this_machine"]


@dataclass(frozen=True)
class Machine:
    """One architecture.

    Attributes:
        name: as the kernel says it (`uname -m`), wheels' tags too.
        system: Nix's name.
        debian: Debian's name.
        oci: Go's name, which OCI configs carry.
        triplet: Debian's multiarch folder.
        elf_machine: e_machine of its ELF files.
        loader: path of its dynamic loader.
    """

    name: str
    system: str
    debian: str
    oci: str
    triplet: str
    elf_machine: int
    loader: str


MACHINES = {
    each.name: each
    for each in (
        Machine("x86_64", "x86_64-linux", "amd64", "amd64", "x86_64-linux-gnu", 62,
                "/lib64/ld-linux-x86-64.so.2"),
        Machine("aarch64", "aarch64-linux", "arm64", "arm64", "aarch64-linux-gnu", 183,
                "/lib/ld-linux-aarch64.so.1"),
    )
}


def machine(name: str) -> Machine:
    """The machine with this name in any of the worlds.

    Raises:
        UserError: no machine has it; never an empty selection.
    """
    for each in MACHINES.values():
        if name in (each.name, each.system, each.debian, each.oci):
            return each
    raise UserError("unknown architecture", expected=", ".join(MACHINES), got=name)


def this_machine() -> Machine:
    """The machine this runs on."""
    return machine(platform.machine())
