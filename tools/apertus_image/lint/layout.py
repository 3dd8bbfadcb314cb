"""What Enroot, Pyxis and the site's hooks expect to find (facts on Enroot, 2 and 5)."""

from __future__ import annotations

from collections.abc import Iterator

from apertus_image.elf.ldcache import CACHE, parse
from apertus_image.elf.ldconfig import Library, folders
from apertus_image.elf.reader import read
from apertus_image.errors import UserError
from apertus_image.lint.findings import Finding
from apertus_image.tree.machine import Machine
from apertus_image.tree.view import View

__all__ = ["check_layout"]

FOLDERS = {
    "/etc": "hooks write into it before the root changes, on the host side of a link",
    "/usr": "the time zone's hook follows it on the host",
    "/usr/share": "the time zone's hook follows it on the host",
    "/var": "mounts are made below it", "/tmp": "a mount is made on it",
    "/root": "it is root's home", "/run": "mounts are made below it",
}
FILES = {
    "/etc/passwd": "Enroot's 10-shadow rewrites it, and would follow a link on the host",
    "/etc/group": "Enroot's 10-shadow rewrites it, and would follow a link on the host",
    "/etc/nsswitch.conf": "names of users and hosts are looked up by it",
    "/etc/environment": "Enroot replaces it with the image's Env",
    "/etc/debian_version": "the driver's hook puts libraries where Debian has them because of it",
}
PROGRAMS = {
    "/bin/sh": "Enroot and Pyxis start it",
    "/usr/sbin/ldconfig": "the CXI and driver hooks run glibc's own in the container",
}
CUDART = "libcudart.so"
TOOLKIT = (f"/usr/local/cuda/lib64/{CUDART}", "/usr/local/cuda/lib64/stubs/libcuda.so",
           "/usr/local/cuda/bin/nvcc")


def check_layout(
    view: View, machine: Machine, glibc: str, cuda: bool
) -> tuple[int, list[Finding]]:
    """Missing or wrong paths, each with why it is needed (case 46).

    Args:
        glibc: the release that the userland is said to have, `2.41`.
        cuda: whether the image carries CUDA.

    Returns:
        how many paths and cache entries were looked at, and what is wrong.
    """
    # The driver's hook puts its libraries there.
    needed = FOLDERS | {f"/usr/lib/{machine.triplet}": "the driver's hook writes into it"}
    found = []
    for path, why in needed.items():
        if view.kind(path) != "dir":
            found.append(Finding("layout", path, view.kind(path) or "missing",
                                 f"must be a real folder: {why}"))
    for path, why in FILES.items():
        if view.kind(path) != "file":
            found.append(Finding("layout", path, view.kind(path) or "missing",
                                 f"must be a plain file: {why}"))
    for path, why in PROGRAMS.items():
        physical = view.physical(path)
        elf = read(physical) if physical and physical.is_file() else None
        if elf is None or elf.machine != machine.elf_machine:
            found.append(Finding("layout", path, "missing",
                                 f"must be a program of {machine.name}: {why}"))
    found += _libc(view, machine, glibc)
    entries, wrong = _entries(view)
    found += [*wrong, *_cached(view, machine, entries)]
    if cuda:
        found += _cuda(view, entries)
    return len(needed) + len(FILES) + len(PROGRAMS) + len(entries), found


def _libc(view: View, machine: Machine, glibc: str) -> Iterator[Finding]:
    if not view.physical(machine.loader):
        yield Finding("layout", machine.loader, "missing", "programs name it as their loader")
    path = f"/usr/lib/{machine.triplet}/libc.so.6"
    physical = view.physical(path)
    elf = read(physical) if physical else None
    if elf is None or f"GLIBC_{glibc}" not in elf.defines:
        yield Finding("layout", path, f"GLIBC_{glibc}", f"must be glibc {glibc}, which wheels' "
                      "tags are measured by; is nix/image.nix behind the userland?")


def _entries(view: View) -> tuple[list[Library], list[Finding]]:
    cache = view.physical(CACHE)
    if cache is None:
        return [], [Finding("layout", CACHE, "missing", "libraries are found by it (trap 15)")]
    try:
        return parse(cache.read_bytes()), []
    except UserError as error:
        return [], [Finding("layout", CACHE, "damaged", f"{error.what}; it has to be made anew")]


def _cached(view: View, machine: Machine, entries: list[Library]) -> Iterator[Finding]:
    if not entries:
        return  # told already
    if "libc.so.6" not in {entry.name for entry in entries}:
        yield Finding("layout", CACHE, "libc.so.6", "does not list libc.so.6; make it anew")
    for entry in entries:
        physical = view.physical(entry.path)
        elf = read(physical, versions=False) if physical and physical.is_file() else None
        if elf is None or elf.machine != machine.elf_machine:
            yield Finding("layout", CACHE, entry.path, f"lists {entry.path}, which is no library "
                          f"of {machine.name} in the image; make it anew over all layers")
    searched = set(folders(view, machine))
    for folder in sorted({entry.path.rpartition("/")[0] for entry in entries} - searched):
        yield Finding("layout", "/etc/ld.so.conf", folder, f"does not lead to {folder}, whose "
                      "libraries the cache lists: the CXI hook's ldconfig would drop them; name it "
                      "in ld.so.conf.d, and include that")


def _cuda(view: View, entries: list[Library]) -> Iterator[Finding]:
    if CUDART not in {entry.name for entry in entries}:
        yield Finding("layout", CACHE, CUDART, f"does not list {CUDART}, which the OFI plugin "
                      "looks for by that name; add the link and the folder to ld.so.conf.d")
    for path in TOOLKIT:
        if not view.physical(path):
            yield Finding("layout", path, "missing", "must lead to a file: compiling at run time "
                          "needs it (trap 13)")
    for entry in entries:
        if "/stubs/" in entry.path:
            yield Finding("layout", CACHE, "stubs", f"lists {entry.path}, a stub of the driver's, "
                          "which must never be loaded (trap 13); take its folder out of "
                          "ld.so.conf.d")
