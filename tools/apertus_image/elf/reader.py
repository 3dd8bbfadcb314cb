"""What the dynamic loader reads of an ELF file, and no more.

pyelftools parses the headers; symbol tables are never looked at, so a library of half a
gigabyte costs as little as a small one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection

__all__ = ["Elf", "is_elf", "read"]

MAGIC = b"\x7fELF"


@dataclass(frozen=True)
class Elf:
    """One ELF file.

    Attributes:
        machine: e_machine as a number (62 x86-64, 183 aarch64, 190 CUDA).
        type: `ET_EXEC`, `ET_DYN`, `ET_REL` and so on.
        soname: DT_SONAME.
        interpreter: PT_INTERP.
        needed: DT_NEEDED, in order.
        rpath, runpath: their folders, `$ORIGIN` as it stands.
        versions: library -> symbol versions needed of it (`GLIBC_2.34`).
        defines: symbol versions it defines.
        dynamic: whether it has a dynamic segment.
    """

    machine: int
    type: str
    soname: str | None = None
    interpreter: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defines: frozenset[str] = frozenset()
    dynamic: bool = False


def is_elf(file: Path) -> bool:
    """Whether a file starts like an ELF file."""
    with file.open("rb") as data:
        return data.read(4) == MAGIC


def read(file: Path, *, versions: bool = True) -> Elf | None:
    """Read one ELF file; None for what is none, or too broken to be loaded.

    Args:
        versions: whether symbol versions are wanted too.
    """
    with file.open("rb") as data:
        if data.read(4) != MAGIC:
            return None
        try:
            return _read(ELFFile(data), versions)
        # Offsets of a damaged header are seeked to, whatever they are.
        except (ELFError, ValueError, KeyError, AttributeError, OSError, OverflowError):
            return None


def _read(elf: ELFFile, versions: bool) -> Elf:
    fields: dict = {"rpath": (), "runpath": (), "needed": []}
    for segment in elf.iter_segments():
        if isinstance(segment, DynamicSegment):
            fields["dynamic"] = True
            for tag in segment.iter_tags():
                if tag.entry.d_tag == "DT_NEEDED":
                    fields["needed"].append(tag.needed)
                elif tag.entry.d_tag == "DT_SONAME":
                    fields["soname"] = tag.soname
                elif tag.entry.d_tag == "DT_RPATH":
                    fields["rpath"] = _folders(tag.rpath)
                elif tag.entry.d_tag == "DT_RUNPATH":
                    fields["runpath"] = _folders(tag.runpath)
        elif segment["p_type"] == "PT_INTERP":
            fields["interpreter"] = segment.get_interp_name()
    fields["needed"] = tuple(fields["needed"])
    if versions and fields.get("dynamic"):
        fields |= _versions(elf)
    # An unknown machine stays a number; a known one comes as a name.
    machine = elf["e_machine"]
    number = machine if isinstance(machine, int) else ENUM_E_MACHINE[machine]
    return Elf(number, str(elf["e_type"]), **fields)


def _folders(text: str) -> tuple[str, ...]:
    return tuple(folder for folder in text.split(":") if folder)


def _versions(elf: ELFFile) -> dict:
    needed: dict[str, tuple[str, ...]] = {}
    defines: set[str] = set()
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for need, auxiliaries in section.iter_versions():
                needed[need.name] = tuple(auxiliary.name for auxiliary in auxiliaries)
        elif isinstance(section, GNUVerDefSection):
            for _, auxiliaries in section.iter_versions():
                defines.update(auxiliary.name for auxiliary in list(auxiliaries)[:1])
    return {"versions": needed, "defines": frozenset(defines)}
