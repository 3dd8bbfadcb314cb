"""Which wheels a machine takes, and which it must not (cases 6 and 40)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from apertus_image.errors import UserError

__all__ = ["GLIBC", "PYTHON", "best_wheel", "glibc_problem", "glibc_problems", "supported_tags"]

PYTHON = (3, 13)
GLIBC = (2, 41)
"""The userland's: Debian 13. uv resolves for manylinux_2_40, the newest it knows (trap 2)."""

LEGACY = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}


def _platforms(machine: str) -> list[str]:
    names = []
    for minor in range(GLIBC[1], 4, -1):
        names.append(f"manylinux_{GLIBC[0]}_{minor}_{machine}")
        if legacy := LEGACY.get((GLIBC[0], minor)):
            names.append(f"{legacy}_{machine}")
    return [*names, f"linux_{machine}"]


def supported_tags(machine: str) -> list[Tag]:
    """The wheel tags of a machine, best first (PEP 425, PEP 600).

    Args:
        machine: `x86_64` or `aarch64`.
    """
    platforms = _platforms(machine)
    interpreter = f"cp{PYTHON[0]}{PYTHON[1]}"
    return [
        *cpython_tags(PYTHON, platforms=platforms),
        *compatible_tags(PYTHON, interpreter=interpreter, platforms=platforms),
    ]


def best_wheel(files: Iterable[str], machine: str) -> str:
    """The file that pip would take.

    Raises:
        UserError: none fits; the message lists each file with its tags, and the glibc
            it needs where that is what stands in the way.
    """
    files = list(files)
    ranks = {tag: rank for rank, tag in enumerate(supported_tags(machine))}
    fits = []
    for file in files:
        _, _, build, tags = parse_wheel_filename(file)
        if found := [ranks[tag] for tag in tags if tag in ranks]:
            fits.append((min(found), [-part if isinstance(part, int) else 0 for part in build],
                         file))
    if fits:
        return min(fits)[2]
    reasons = [f"{file}: {glibc_problem(file, machine) or 'tags do not fit'}" for file in files]
    raise UserError(
        "no wheel fits the image",
        where=f"{machine}, CPython {PYTHON[0]}.{PYTHON[1]}, glibc {GLIBC[0]}.{GLIBC[1]}",
        got="\n            ".join(reasons) or "no wheel at all",
        next_step="ask for another version in nix/pins/requirements.in",
    )


def glibc_problem(file: str, machine: str) -> str | None:
    """Why a wheel's tags ask too much of the userland, None if they do not.

    A Tegra (L4T) build of an aarch64 wheel is none for a server: GH200 wants sbsa.
    """
    name, version, _, tags = parse_wheel_filename(file)
    if machine == "aarch64" and re.search(r"tegra|l4t|jetson|jp\d", f"{name}+{version}", re.I):
        return "a Tegra build; a GH200 needs the server (sbsa) one"
    needed = _glibc([tag.platform for tag in tags], machine)
    return _too_new(min(needed)) if needed and min(needed) > GLIBC else None


def glibc_problems(text: str, machine: str) -> list[str]:
    """The tags in a text, uv's refusal say, that ask for a newer glibc, and for which."""
    tags = sorted(set(re.findall(rf"manylinux_\d+_\d+_{machine}", text)))
    return [f"{tag}: {_too_new(version)}" for tag in tags
            for version in _glibc([tag], machine) if version > GLIBC]


def _glibc(platforms: Iterable[str], machine: str) -> list[tuple[int, int]]:
    found = (re.fullmatch(rf"manylinux_(\d+)_(\d+)_{machine}", each) for each in platforms)
    return [(int(match[1]), int(match[2])) for match in found if match]


def _too_new(version: tuple[int, int]) -> str:
    return (f"tag needs glibc {version[0]}.{version[1]}, "
            f"the userland has {GLIBC[0]}.{GLIBC[1]}")
