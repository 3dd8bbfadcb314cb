"""What a self-contained folder is made of: pinned packages and wheels."""

from __future__ import annotations

from pathlib import Path

from apertus_image.errors import UserError, raise_all
from apertus_image.fetch.plan import Input, debs, wheels
from apertus_image.tree.machine import Machine

__all__ = ["inputs"]

# The toolchain's programs are those of the builds, so the bits are the builds' too.
LOCKS = ("toolchain", "bundle")


def inputs(pins: Path, machine: Machine) -> list[Input]:
    """The Debian packages and the wheels of the folder for a machine, in order.

    Raises:
        UserError: a lock is stale, or two locks have one package in two versions.
    """
    found: dict[str, Input] = {}
    problems = []
    for lock in LOCKS:
        for each in debs(pins / f"{lock}.json", machine.debian):
            other = found.setdefault(each.name, each)
            if other.pin != each.pin:
                problems.append(UserError(
                    "two locks pin one package differently", where=each.name,
                    expected=other.pin.file, got=each.pin.file, next_step="tools/lock debian"))
    raise_all(problems, "{n} packages are pinned differently")
    return [*found.values(), *wheels(pins / "tools.json", machine.name)]
