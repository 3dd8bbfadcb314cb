"""Debian locks: what a world's .packages file asks for, and what apt makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.pins import lockfile, requirements
from apertus_image.resolve import gone
from apertus_image.resolve.apt import ARCHITECTURES, SUITE, Suite
from apertus_image.resolve.bootstrap import with_trees

__all__ = ["WORLDS", "repin_gone", "resolve"]

WORLDS = {"userland": True, "toolchain": True, "toolchain-go": True, "bundle": True,
          "bootstrap": False}
"""Lock -> whether the dependencies of what is asked for are wanted too."""


def resolve(kind: str, pins: Path, suite: Suite) -> dict[str, Any]:
    """Resolve one Debian lock for both architectures.

    A line of the file is a package's name; `-NAME` leaves out one that apt would add, for
    files that are unpacked and never set up.

    Args:
        kind: a key of WORLDS; `KIND.packages` beside the locks says what is asked for.
        pins: folder of the locks.

    Raises:
        UserError: apt cannot resolve it, or a package left out is none that apt adds.
    """
    file = pins / f"{kind}.packages"
    lines = requirements.lines(file)
    wanted = [line for line in lines if not line.startswith("-")]
    unwanted = {line.removeprefix("-") for line in lines} - set(wanted)
    release, date = suite.release()
    lock: dict[str, Any] = {
        "format": lockfile.FORMAT,
        "kind": "debian",
        "suite": SUITE,
        "requirements": {file.name: requirements.sha256(file)},
        "release": release,
        "date": date,
    }
    useless = set(unwanted)
    for architecture in ARCHITECTURES:
        packages = suite.closure(architecture, wanted) if WORLDS[kind] else wanted
        names = {package.split("=")[0] for package in packages}
        useless -= names
        lock[architecture] = suite.entries(
            architecture, [p for p in packages if p.split("=")[0] not in unwanted])
    if useless:
        raise UserError("a package is left out that apt does not add", where=file,
                        got=", ".join(sorted(useless)), next_step=f"take it out of {file.name}")
    return with_trees(lock) if kind == "bootstrap" else lock


def repin_gone(kind: str, lock: dict[str, Any], pins: Path, suite: Suite) -> dict[str, Any]:
    """The lock with those packages alone pinned anew that no place has any more.

    Args:
        lock: the lock of this kind that there is.
    """
    lost = {architecture: gone.gone(lock, architecture) for architecture in ARCHITECTURES}
    new = gone.replaced(lock, lost, lambda: resolve(kind, pins, suite))
    return with_trees(new) if kind == "bootstrap" and new != lock else new
