"""Debian packages that no mirror has any more, and their replacement alone.

Mirrors drop a version at the next point release. Where neither mirror nor snapshot
archive nor folder has it, the packages that are gone are pinned anew and no other, so
that the difference is as small as it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from apertus_image.errors import UserError
from apertus_image.fetch import plan, sources
from apertus_image.fetch.prefetch import places

__all__ = ["gone", "replaced"]

WORKERS = 8


def gone(lock: dict[str, Any], architecture: str) -> set[str]:
    """Names of the packages that no mirror, snapshot archive or folder of this machine has.

    Raises:
        UserError: a package cannot be had, but not for certain: a place that might have it
            does not answer.
    """
    mirrors, snapshots = sources.debian_mirrors(), sources.debian_snapshots()
    inputs = plan.inputs_of(lock, architecture)
    with requests.Session() as session, ThreadPoolExecutor(WORKERS) as pool:
        session.verify = sources.ca_bundle() or True
        session.mount("http://", HTTPAdapter(pool_maxsize=WORKERS))
        session.mount("https://", HTTPAdapter(pool_maxsize=WORKERS))
        found = list(pool.map(
            lambda each: _anywhere(session, places(each, mirrors, snapshots), each.pin.size),
            inputs))
    lost = {each.name for each, had in zip(inputs, found, strict=True) if had is not True}
    if None in found:
        unsure = sorted(each.name for each, had in zip(inputs, found, strict=True) if had is None)
        raise UserError(
            "packages cannot be said to be gone: a mirror that may have them does not answer",
            got=", ".join(unsure[:5]) + (f" and {len(unsure) - 5} more" if unsure[5:] else ""),
            next_step="run it again, or set APERTUS_DEBIAN_MIRRORS to mirrors that answer",
        )
    return lost


def _anywhere(session: requests.Session, spots: Iterable[str], size: int) -> bool | None:
    """Whether one of the places has a file; None if none has but some did not answer."""
    answers = []
    for place in spots:
        answers.append(_has(session, place, size))
        if answers[-1]:
            return True
    return None if None in answers or not answers else False


def _has(session: requests.Session, place: str, size: int) -> bool | None:
    """Whether a place has a file of this size; None if the place is out of reach."""
    if not place.startswith(("http://", "https://")):
        file = Path(place.removeprefix("file://"))
        return file.is_file() and file.stat().st_size == size
    try:
        reply = session.head(place, timeout=30, allow_redirects=True)
    except requests.RequestException:
        return None
    # A server that is out of order says nothing of the file; it is asked again another day.
    if not reply.ok and reply.status_code not in (404, 410):
        return None
    return reply.ok and int(reply.headers.get("Content-Length", size)) == size


def replaced(
    lock: dict[str, Any],
    lost: Mapping[str, set[str]],
    resolve: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """A lock with the lost packages pinned anew.

    A pin from another point release than the lock's carries that release's date itself,
    since a snapshot archive is asked by date. What the new versions need and the lock does
    not have comes with them; a lost package that nothing asks for any more goes.

    Args:
        lock: whole, of any age.
        lost: section (architecture) -> names that are gone there.
        resolve: gives a new resolution of the whole lock.
    """
    if not any(lost.values()):
        return lock
    fresh = resolve()
    result = dict(lock)
    for section, names in lost.items():
        if not names:
            continue
        known = {pin["name"] for pin in lock[section]}
        kept = [pin for pin in lock[section] if pin["name"] not in names]
        new = [
            pin if fresh["date"] == lock["date"] else pin | {"date": fresh["date"]}
            for pin in fresh[section]
            if pin["name"] in names or pin["name"] not in known
        ]
        result[section] = sorted(kept + new, key=lambda pin: pin["name"])
    return result
