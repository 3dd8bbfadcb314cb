"""Wheels' own tags against the userland they are put on (case 40)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from apertus_image.lint.findings import Finding
from apertus_image.tree.machine import Machine

__all__ = ["check_tags"]

# PEP 600: what the names before it stand for.
LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def check_tags(path: str, physical: Path, machine: Machine, glibc: str) -> Iterator[Finding]:
    """A dist-info's WHEEL file names tags that this machine and glibc satisfy.

    Args:
        glibc: the userland's, `2.41`.
    """
    limit = tuple(int(part) for part in glibc.split("."))
    platforms = [tag.rpartition("-")[2]
                 for tag in re.findall(r"(?m)^Tag: (\S+)", physical.read_text(errors="replace"))]
    singles = [each for tag in platforms for each in tag.split(".")]
    if not singles:
        yield Finding("tags", path, "none", "says no tag, so nothing tells what it runs on; "
                      "pin another build of it")
    elif not any(_fits(tag, machine, limit) for tag in singles):
        needs = ", ".join(dict.fromkeys(singles))
        yield Finding("tags", path, needs, f"needs {needs}; the image is {machine.name} with "
                      f"glibc {glibc}; pin another build of it")


def _fits(tag: str, machine: Machine, limit: tuple[int, ...]) -> bool:
    if tag == "any":
        return True
    # sbsa is NVIDIA's name for server ARM, as against tegra; it is what a GH200 wants.
    names = [machine.name, "sbsa"] if machine.name == "aarch64" else [machine.name]
    system = next((tag.removesuffix(f"_{name}") for name in names if tag.endswith(f"_{name}")), "")
    if system == "linux":
        return True  # no promise at all: the check of symbol versions decides
    if system in LEGACY:
        return LEGACY[system] <= limit
    match = re.fullmatch(r"manylinux_(\d+)_(\d+)", system)
    return match is not None and (int(match[1]), int(match[2])) <= limit
