"""Which libraries ldconfig would find, and under which names (ldconfig(8), glibc 2.41)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from apertus_image.elf.reader import read
from apertus_image.tree.machine import Machine
from apertus_image.tree.view import View

__all__ = ["Library", "folders", "libcmp", "libraries"]

CONFIG = "/etc/ld.so.conf"


@dataclass(frozen=True)
class Library:
    """An entry of the cache: a name that programs need, and the file that has it."""

    name: str
    path: str


def folders(view: View, machine: Machine) -> list[str]:
    """The folders that are searched: those of ld.so.conf in order, then the built-in ones."""
    found = [*_configured(view, CONFIG), f"/lib/{machine.triplet}", f"/usr/lib/{machine.triplet}",
             "/lib", "/usr/lib"]
    real: dict[str, str] = {}
    for folder in found:
        resolved = view.resolve(folder)
        if resolved:
            # One folder under two names (merged usr) counts once, by its first.
            real.setdefault(resolved, folder)
    return list(real.values())


def _configured(view: View, file: str) -> Iterator[str]:
    physical = view.physical(file)
    if physical is None:
        return
    for line in physical.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("include"):
            pattern = line.split(None, 1)[1]
            folder, _, name = pattern.rpartition("/")
            for each in view.names(folder):
                if fnmatchcase(each, name):
                    yield from _configured(view, f"{folder}/{each}")
        elif line:
            yield line


def libraries(view: View, machine: Machine) -> list[Library]:
    """Every entry of the cache, in the cache's order."""
    found: list[Library] = []
    for folder in folders(view, machine):
        found += _folder(view, folder, machine)
    # A stable sort: of one name, the folder searched first stays first.
    return sorted(found, key=functools.cmp_to_key(lambda a, b: libcmp(b.name, a.name)))


def _folder(view: View, folder: str, machine: Machine) -> list[Library]:
    """ldconfig's rules for one folder: a file beats a link, then the higher name wins."""
    best: dict[str, tuple[bool, str]] = {}
    for name in view.names(folder):
        if not name.startswith(("lib", "ld-")) or ".so" not in name:
            continue
        path = f"{folder}/{name}"
        physical = view.physical(path)
        if physical is None or not physical.is_file():
            continue
        elf = read(physical, versions=False)
        if elf is None or elf.machine != machine.elf_machine or not elf.dynamic:
            continue
        link = view.kind(path) == "link"
        soname = elf.soname or name
        # A link named as the soname, or as the soname is without its version (for ld),
        # stands for itself; any other link counts as a file of that soname.
        if link and (name == soname or (name.endswith(".so") and soname.startswith(name))):
            soname = name
        else:
            link = False
        held = best.get(soname)
        if held is None or (held[0] and not link) or (
            held[0] == link and libcmp(held[1], name) < 0
        ):
            best[soname] = (link, name)
    entries = []
    for soname, (_, name) in best.items():
        # ldconfig would make the link that is missing; the file itself serves as well.
        path = f"{folder}/{soname}"
        entries.append(Library(soname, path if view.kind(path) else f"{folder}/{name}"))
    return entries


def libcmp(left: str, right: str) -> int:
    """glibc's _dl_cache_libcmp: runs of digits by value, and after any other character."""
    a, b = _tokens(left), _tokens(right)
    for x, y in zip(a, b, strict=False):
        if x != y:
            if isinstance(x, int) and isinstance(y, int):
                return x - y
            if isinstance(x, int) or isinstance(y, int):
                return 1 if isinstance(x, int) else -1
            return ord(x) - ord(y)
    return len(a) - len(b)


def _tokens(name: str) -> list[int | str]:
    return [int(part) if part.isdigit() else part for part in re.findall(r"[0-9]+|.", name)]
