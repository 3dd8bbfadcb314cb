"""Wheels' own tags against the userland they are put on (case 40)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from apertus_image.lint.findings import Finding
from apertus_image.tree.machine import Machine

__all__ = ["check_tags"]


def check_tags(path: str, physical: Path, machine: Machine, glibc: str) -> Iterator[Finding]:
    """A dist-info's WHEEL file names tags that this machine and glibc satisfy.

    Args:
        glibc: the userland's, `2.41`.
    """
    limit = tuple(int(part) for part in glibc.split("."))
    platforms = [tag.rpartition("-")[2]
                 for line in re.findall(r"(?m)^Tag: (\S+)", physical.read_text())
                 for tag in line.split()]
    singles = [each for tag in platforms for each in tag.split(".")]
    if not singles or any(_fits(tag, machine, limit) for tag in singles):
        return
    yield Finding("tags", path, ", ".join(singles),
                  f"needs {', '.join(singles)}; the image is {machine.name} with glibc {glibc}")


def _fits(tag: str, machine: Machine, limit: tuple[int, ...]) -> bool:
    if tag == "any":
        return True
    # NVIDIA's name for server ARM, as against Tegra; it is what a GH200 wants.
    if machine.name == "aarch64" and tag.endswith("_sbsa"):
        return True
    if not tag.endswith(f"_{machine.name}"):
        return False
    match = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    return (int(match[1]), int(match[2])) <= limit if match else True
