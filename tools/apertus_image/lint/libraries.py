"""Every ELF file finds what it needs, inside the image, by the loader's own rules.

Source: ld.so(8), "dynamic linker search order". LD_LIBRARY_PATH is not set in the image
(trap 15), so run paths, the cache and the built-in folders are all there is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from apertus_image.elf.ldcache import CACHE, parse
from apertus_image.elf.reader import Elf, is_elf, read
from apertus_image.lint.findings import Finding
from apertus_image.tree.machine import Machine
from apertus_image.tree.view import View

__all__ = [
    "DRIVER", "Loader", "Object", "check_machine", "check_needs", "check_versions", "inherited",
    "objects",
]

# What the host's driver brings when a container starts (libnvidia-container).
DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-*.so.1", "libnvcuvid.so.1",
          "libcudadebugger.so.1")
EM_CUDA = 190
ET_REL = "ET_REL"


@dataclass(frozen=True)
class Object:
    """One ELF file of the image: where the image has it, where it lies, what it says."""

    path: str
    physical: Path
    elf: Elf


def objects(view: View) -> Iterator[Object]:
    """Every ELF file that a loader or linker could take; GPU code in ELF form is none."""
    for path, physical in view.files():
        if is_elf(physical):
            elf = read(physical)
            if elf is not None and elf.machine != EM_CUDA:
                yield Object(path, physical, elf)


def check_machine(each: Object, machine: Machine) -> Iterator[Finding]:
    """No file is for another machine (case 6)."""
    if each.elf.machine != machine.elf_machine:
        yield Finding("machine", each.path, str(each.elf.machine),
                      f"is for ELF machine {each.elf.machine}, the image is for "
                      f"{machine.name} ({machine.elf_machine}); leave it out")


class Loader:
    """The loader's search, over the image's own cache."""

    def __init__(self, view: View, machine: Machine) -> None:
        self.view = view
        self.machine = machine
        cache = view.physical(CACHE)
        entries = parse(cache.read_bytes()) if cache else []
        self.cache = {entry.name: entry.path for entry in reversed(entries)}
        self.defaults = [f"/lib/{machine.triplet}", f"/usr/lib/{machine.triplet}", "/lib",
                         "/usr/lib"]

    def find(self, needed: str, each: Object, inherited: tuple[str, ...] = ()) -> str | None:
        """The path that a need of this object leads to.

        Args:
            inherited: RPATH folders of what loads the object.
        """
        if "/" in needed:
            return self.view.resolve(needed)
        elf = each.elf
        folders = [] if elf.runpath else [*self.folders(elf.rpath, each.path), *inherited]
        folders += self.folders(elf.runpath, each.path)
        for folder in folders:
            if self._is(f"{folder}/{needed}"):
                return f"{folder}/{needed}"
        if needed in self.cache and self._is(self.cache[needed]):
            return self.cache[needed]
        for folder in self.defaults:
            if self._is(f"{folder}/{needed}"):
                return f"{folder}/{needed}"
        return None

    def folders(self, paths: tuple[str, ...], origin: str) -> list[str]:
        """The folders of a run path, for an object at `origin`."""
        # $ORIGIN is where the loader opened the file, links in it followed.
        folder = posixpath.dirname(self.view.resolve(origin) or origin)
        return [posixpath.normpath(path.replace("${ORIGIN}", folder).replace("$ORIGIN", folder))
                for path in paths]

    def _is(self, path: str) -> bool:
        physical = self.view.physical(path)
        return physical is not None and physical.is_file()


def inherited(found: Iterable[Object], loader: Loader) -> dict[str, tuple[str, ...]]:
    """RPATH folders that an object gets from what loads it: real path -> folders.

    DT_RPATH, other than DT_RUNPATH, holds for the whole chain of what an object needs
    (ld.so(8)); wheels repaired by auditwheel rely on it.
    """
    by_path = {loader.view.resolve(each.path): each for each in found}
    folders: dict[str, tuple[str, ...]] = {}
    waiting = [each for each in by_path.values() if each.elf.rpath and not each.elf.runpath]
    while waiting:
        each = waiting.pop()
        real = loader.view.resolve(each.path)
        chain = folders.get(real, ())
        passed = (*chain, *loader.folders(each.elf.rpath, each.path))
        for needed in each.elf.needed:
            path = loader.find(needed, each, chain)
            target = loader.view.resolve(path) if path else None
            if target not in by_path or target == real:
                continue
            merged = tuple(dict.fromkeys((*folders.get(target, ()), *passed)))
            if merged != folders.get(target, ()):
                folders[target] = merged
                waiting.append(by_path[target])
    return folders


def check_needs(
    each: Object, loader: Loader, rpaths: dict[str, tuple[str, ...]]
) -> Iterator[Finding]:
    """Every DT_NEEDED leads to a file of the image, the driver's libraries excepted."""
    if each.elf.type == ET_REL:
        return
    chain = rpaths.get(loader.view.resolve(each.path), ())
    for needed in each.elf.needed:
        if any(fnmatchcase(needed, pattern) for pattern in DRIVER):
            continue
        if loader.find(needed, each, chain) is None:
            yield Finding("needs", each.path, needed,
                          f"needs {needed}, which its run path and the loader's cache do not "
                          "lead to; pin what brings it, or waive it with the reason")


def check_versions(each: Object, loader: Loader, known: dict[str, Elf | None]) -> Iterator[Finding]:
    """Every symbol version needed is defined by the library it is needed of (case 40)."""
    for library, versions in each.elf.versions.items():
        path = loader.find(library, each)
        if path is None:
            continue  # told by check_needs
        real = loader.view.resolve(path)
        if real not in known:
            physical = loader.view.physical(path)
            known[real] = read(physical) if physical else None
        found = known[real]
        defined = found.defines if found else frozenset()
        for version in versions:
            if version not in defined and defined:
                newest = max((d for d in defined if d.split("_")[0] == version.split("_")[0]),
                             key=_number, default="none")
                yield Finding("versions", each.path, version,
                              f"needs {version} of {library}, the image's has up to {newest}")


def _number(version: str) -> list[int]:
    return [int(part) for part in version.rpartition("_")[2].split(".") if part.isdigit()]
