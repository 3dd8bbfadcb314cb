"""Every ELF file finds what it needs, inside the image, by the loader's own rules.

Source: ld.so(8), "dynamic linker search order". LD_LIBRARY_PATH is not set in the image
(trap 15), so run paths, the cache and the built-in folders are all there is.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from apertus_image.elf.ldcache import CACHE, parse
from apertus_image.elf.reader import Elf, read
from apertus_image.errors import UserError
from apertus_image.lint.findings import Finding
from apertus_image.lint.walk import Entry
from apertus_image.tree.machine import MACHINES, Machine
from apertus_image.tree.view import View

__all__ = [
    "DRIVER", "Loader", "Object", "aliases", "check_machine", "check_needs", "check_versions",
    "inherited", "object_in",
]

# What the host's driver brings when a container starts (libnvidia-container).
DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-*.so.1", "libnvcuvid.so.1",
          "libcudadebugger.so.1")
MAGIC = b"\x7fELF"
EM_CUDA = 190
ET_REL = "ET_REL"


@dataclass(frozen=True)
class Object:
    """One ELF file of the image.

    Attributes:
        path: what it is opened by, which `$ORIGIN` follows.
        elf: what it says; None if it is too damaged to say anything.
    """

    path: str
    elf: Elf | None


def object_in(entry: Entry) -> Object | None:
    """The ELF file that a loader or linker could take; GPU code in ELF form is none."""
    if entry.target is not None:
        return None
    with entry.physical.open("rb") as file:
        head = file.read(20)
    # Thousands of kernels for GPUs are told by their header alone.
    if head[:4] != MAGIC or head[18:20] == EM_CUDA.to_bytes(2, "little"):
        return None
    return Object(entry.path, read(entry.physical))


def check_machine(each: Object, machine: Machine) -> Iterator[Finding]:
    """No file is for another machine (case 6), or damaged."""
    if each.elf is None:
        yield Finding("machine", each.path, "damaged", "starts like an ELF file and cannot be "
                      "read as one; is it cut short? pin another build of it")
    elif each.elf.machine != machine.elf_machine:
        name = next((m.name for m in MACHINES.values() if m.elf_machine == each.elf.machine),
                    "an unknown machine")
        yield Finding("machine", each.path, str(each.elf.machine),
                      f"is for {name} (ELF machine {each.elf.machine}), the image is for "
                      f"{machine.name} ({machine.elf_machine}); leave it out")


class Loader:
    """The loader's search, over the image's own cache."""

    def __init__(self, view: View, machine: Machine) -> None:
        self.view = view
        self.machine = machine
        self.cache: dict[str, str] = {}
        # Of one name the first entry counts. A damaged cache is told by the layout's check.
        cache = view.physical(CACHE)
        with contextlib.suppress(UserError):
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
        # A run path turns off RPATH, the object's own and those of what loads it.
        folders = self.folders(elf.runpath, each.path) if elf.runpath else [
            *self.folders(elf.rpath, each.path), *inherited]
        for folder in folders:
            if self._is(f"{folder}/{needed}"):
                return f"{folder}/{needed}"
        if needed in self.cache and self._is(self.cache[needed]):
            return self.cache[needed]
        for folder in self.defaults:
            if self._is(f"{folder}/{needed}"):
                return f"{folder}/{needed}"
        return None

    def folders(self, paths: tuple[str, ...], opened: str) -> list[str]:
        """The folders of a run path, for an object opened by this path."""
        # glibc takes $ORIGIN from the path as it stands; only the kernel follows its links.
        origin = posixpath.dirname(opened)
        return [path.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for path in paths]

    def _is(self, path: str) -> bool:
        physical = self.view.physical(path)
        return physical is not None and physical.is_file()


def inherited(found: Iterable[Object], loader: Loader) -> dict[str, tuple[str, ...]]:
    """RPATH folders that an object gets from what loads it: real path -> folders.

    DT_RPATH, other than DT_RUNPATH, holds for the whole chain of what an object needs
    (ld.so(8)); wheels repaired by auditwheel rely on it.
    """
    by_path = {each.path: each for each in found}
    folders: dict[str, tuple[str, ...]] = {}
    waiting = [each for each in by_path.values() if each.elf.rpath and not each.elf.runpath]
    while waiting:
        each = waiting.pop()
        chain = folders.get(each.path, ())
        own = () if each.elf.runpath else loader.folders(each.elf.rpath, each.path)
        for needed in each.elf.needed:
            path = loader.find(needed, each, chain)
            target = loader.view.resolve(path) if path else None
            if target not in by_path or target == each.path:
                continue
            merged = tuple(dict.fromkeys((*folders.get(target, ()), *own, *chain)))
            if merged != folders.get(target, ()):
                folders[target] = merged
                waiting.append(by_path[target])
    return folders


def aliases(
    found: Iterable[Object], loader: Loader, rpaths: dict[str, tuple[str, ...]]
) -> Iterator[Object]:
    """Objects that are opened by a link in another folder too, where `$ORIGIN` is another."""
    by_path = {each.path: each for each in found}
    view, seen = loader.view, set()

    def opened(path: str) -> Iterator[Object]:
        real = view.resolve(path)
        if path in seen or real not in by_path:
            return
        seen.add(path)
        if posixpath.dirname(real) != view.resolve(posixpath.dirname(path)):
            yield Object(path, by_path[real].elf)

    waiting = list(by_path.values())
    for path in loader.cache.values():
        for each in opened(path):
            yield each
            waiting.append(each)
    while waiting:
        each = waiting.pop()
        for needed in each.elf.needed:
            path = loader.find(needed, each, rpaths.get(each.path, ()))
            for other in opened(path) if path else ():
                yield other
                waiting.append(other)


def check_needs(
    each: Object, loader: Loader, rpaths: dict[str, tuple[str, ...]]
) -> Iterator[Finding]:
    """Every DT_NEEDED leads to a file of the image; the driver's libraries to none."""
    if each.elf.type == ET_REL:
        return
    for needed in each.elf.needed:
        path = loader.find(needed, each, rpaths.get(each.path, ()))
        if any(fnmatchcase(needed, pattern) for pattern in DRIVER):
            if path is not None:
                yield Finding("needs", each.path, needed,
                              f"finds the driver's {needed} in the image, at {path}, so the "
                              "host's would not be loaded (trap 13); leave it out")
        elif path is None:
            yield Finding("needs", each.path, needed,
                          f"needs {needed}, which its run path and the loader's cache do not "
                          "lead to; pin what brings it, or waive it with the reason")


def check_versions(
    each: Object, loader: Loader, rpaths: dict[str, tuple[str, ...]], known: dict[str, Elf | None]
) -> Iterator[Finding]:
    """Every symbol version needed is defined by the library it is needed of (case 40).

    Args:
        known: what was read of libraries already, by real path; added to.
    """
    for library, versions in each.elf.versions.items():
        path = loader.find(library, each, rpaths.get(each.path, ()))
        if path is None:
            continue  # told by check_needs
        real = loader.view.resolve(path)
        if real not in known:
            physical = loader.view.physical(path)
            known[real] = read(physical) if physical else None
        found = known[real]
        # Of a library without any version the loader only warns.
        defined = found.defines if found else frozenset()
        for version in versions:
            if version not in defined and defined:
                newest = max((d for d in defined if d.split("_")[0] == version.split("_")[0]),
                             key=_number, default="none")
                yield Finding("versions", each.path, version,
                              f"needs {version} of {library}, the image's has up to {newest}; "
                              "pin a build for an older one")


def _number(version: str) -> list[int]:
    return [int(part) for part in version.rpartition("_")[2].split(".") if part.isdigit()]
