"""Debian packages that no mirror has any more, and their replacement alone.

Mirrors drop a version at the next point release. Where neither mirror nor snapshot
archive nor folder has it, the packages that are gone are pinned anew and no other, so
that the difference is as small as it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from apertus_image.errors import UserError
from apertus_image.fetch import plan, sources
from apertus_image.fetch.places import of_package
from apertus_image.fetch.web import TIMEOUT, Down, new_session

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
    down = Down()
    with (new_session(sources.ca_bundle() or True, WORKERS) as session,
          ThreadPoolExecutor(WORKERS) as pool):
        session.proxies = sources.apt_proxies()

        def anywhere(each: plan.Input) -> bool | None:
            """None if no place has it but some did not answer."""
            answers = []
            for place in of_package(each, mirrors, snapshots):
                answers.append(_has(session, place, each.pin.size, down))
                if answers[-1]:
                    return True
            return None if None in answers or not answers else False

        found = list(pool.map(anywhere, inputs))
    lost = {each.name for each, had in zip(inputs, found, strict=True) if had is not True}
    if None in found:
        unsure = sorted(each.name for each, had in zip(inputs, found, strict=True) if had is None)
        raise UserError(
            "packages cannot be said to be gone: a mirror that may have them does not answer",
            got=", ".join(unsure[:5]) + (f" and {len(unsure) - 5} more" if unsure[5:] else ""),
            next_step="run it again, or set APERTUS_DEBIAN_MIRRORS to mirrors that answer",
        )
    return lost


def _has(session: requests.Session, place: str, size: int, down: Down) -> bool | None:
    """Whether a place has a file of this size; None if the place does not say."""
    if folder := sources.folder_of(place):
        return folder.is_file() and folder.stat().st_size == size
    if down.why(place):
        return None
    try:
        reply = session.head(place, timeout=TIMEOUT, allow_redirects=True)
    except requests.RequestException as error:
        down.note(place, type(error).__name__)
        return None
    # A server that is out of order, or wants a password, says nothing of the file.
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
