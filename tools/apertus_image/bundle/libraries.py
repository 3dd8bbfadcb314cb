"""The shared libraries of the folder: those its programs load, and all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from apertus_image.elf.reader import read
from apertus_image.errors import UserError, raise_all

__all__ = ["settle"]

OPENED = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2")
"""What is opened by name: by glibc for threads that end, by Nix to look up names."""


def settle(libraries: Path, users: Iterable[Path], loader: str) -> None:
    """Remove from `libraries` what nobody loads, and refuse a program that lacks a library.

    Found out here and not on the machine where it would fail. Plug-ins that a library opens by a
    path do not count: none of the programs needs one.

    Args:
        libraries: the one folder that is looked in.
        users: programs, and extension modules.
        loader: name of the dynamic loader.

    Raises:
        UserError: for each library that is missing, who needs it.
    """
    missing: dict[str, str] = {}
    kept = {loader, *(name for name in OPENED if (libraries / name).exists())}
    queue = [*users, *(libraries / name for name in kept)]
    while queue:
        user = queue.pop()
        elf = read(user, versions=False)
        for name in elf.needed if elf else ():
            if not (libraries / name).exists():
                missing.setdefault(name, user.name)
            elif name not in kept:
                kept.add(name)
                queue.append(libraries / name)
    raise_all((UserError("a program of the folder lacks a library", where=user, expected=name,
                         next_step="ask for its package in nix/pins/bundle.packages")
               for name, user in sorted(missing.items())), "{n} libraries are missing")
    files = {(libraries / name).resolve() for name in kept}
    for each in libraries.iterdir():
        if each.name not in kept and (each.is_symlink() or each.resolve() not in files):
            each.unlink()
