"""Debian packages that no mirror has any more, and their replacement alone.

Mirrors drop a version at the next point release. Where neither mirror nor snapshot
archive nor cache has it, the packages that are gone are pinned anew and no other, so
that the difference is as small as it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

from apertus_image.fetch.plan import Input
from apertus_image.fetch.prefetch import places

__all__ = ["gone", "replaced"]


def gone(
    session: requests.Session, inputs: list[Input], mirrors: list[str], snapshots: list[str]
) -> set[str]:
    """Names of the packages that no place has."""

    def missing(each: Input) -> bool:
        return not any(_has(session, place, each.pin.size)
                       for place in places(each, mirrors, snapshots))

    with ThreadPoolExecutor(8) as pool:
        return {each.name for each, lost in zip(inputs, pool.map(missing, inputs), strict=True)
                if lost}


def _has(session: requests.Session, place: str, size: int) -> bool:
    if not place.startswith(("http://", "https://")):
        file = Path(place.removeprefix("file://"))
        return file.is_file() and file.stat().st_size == size
    try:
        return session.head(place, timeout=30, allow_redirects=True).ok
    except requests.RequestException:
        return False


def replaced(
    lock: dict[str, Any], lost: dict[str, set[str]], resolve: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """A lock with the lost packages pinned anew.

    Args:
        lost: section (architecture) -> names that are gone there.
        resolve: gives a new resolution of the whole lock.
    """
    if not any(lost.values()):
        return lock
    fresh = resolve()
    result = dict(lock)
    for section, names in lost.items():
        new = {pin["name"]: pin for pin in fresh[section]}
        result[section] = [
            new[pin["name"]] if pin["name"] in names and pin["name"] in new else pin
            for pin in lock[section]
        ]
    return result
