"""What Enroot, Pyxis and the site's hooks expect to find (facts on Enroot, 2 and 5)."""

from __future__ import annotations

from collections.abc import Iterator

from apertus_image.elf.ldcache import CACHE, parse
from apertus_image.elf.reader import read
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


def check_layout(view: View, machine: Machine, cuda: bool) -> Iterator[Finding]:
    """Missing or wrong paths, each with why it is needed (case 46).

    Args:
        cuda: whether the image carries CUDA.
    """
    for path, why in FOLDERS.items():
        if view.kind(path) != "dir":
            yield Finding("layout", path, view.kind(path) or "missing",
                          f"must be a real folder: {why}")
    for path, why in FILES.items():
        if view.kind(path) != "file":
            yield Finding("layout", path, view.kind(path) or "missing",
                          f"must be a plain file: {why}")
    for path, why in PROGRAMS.items():
        physical = view.physical(path)
        elf = read(physical) if physical else None
        if elf is None or elf.machine != machine.elf_machine:
            yield Finding("layout", path, "missing", f"must be a program of {machine.name}: {why}")
    yield from _loader(view, machine, cuda)


def _loader(view: View, machine: Machine, cuda: bool) -> Iterator[Finding]:
    if not view.physical(machine.loader):
        yield Finding("layout", machine.loader, "missing", "programs name it as their loader")
    cache = view.physical(CACHE)
    if cache is None:
        yield Finding("layout", CACHE, "missing", "libraries are found by it (trap 15)")
        return
    names = {entry.name for entry in parse(cache.read_bytes())}
    if "libc.so.6" not in names:
        yield Finding("layout", CACHE, "libc.so.6", "does not list libc.so.6")
    if not cuda:
        return
    if CUDART not in names:
        yield Finding("layout", CACHE, CUDART,
                      "does not list libcudart.so, which the OFI plugin looks for by that name")
    for path in (f"/usr/local/cuda/lib64/{CUDART}", "/usr/local/cuda/lib64/stubs/libcuda.so",
                 "/usr/local/cuda/bin/nvcc"):
        if not view.physical(path):
            yield Finding("layout", path, "missing", "compiling at run time links against it")
    if any("stubs" in entry.path for entry in parse(cache.read_bytes())):
        yield Finding("layout", CACHE, "stubs", "lists a stub of the driver's, which must never "
                      "be loaded (trap 13)")
