"""Where one input may be: the places to ask, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import quote

import requests
from packaging.utils import canonicalize_name

from apertus_image.fetch import index, sources
from apertus_image.fetch.plan import Input
from apertus_image.fetch.web import Down, Failed, new_session

__all__ = ["Places", "of_package", "snapshot_stamp"]

# A point release is dated when its lists are made, and imported within hours; asked with
# a time between imports, the archive answers with the state before it. The next release
# comes weeks later.
AFTER_RELEASE = timedelta(days=1)


class Places:
    """The places to ask for any input; the machine is asked for them once.

    Args:
        connections: open to one host at a time.
        wait: how to pause before asking an index again, seconds.
        down: hosts not to be asked.
    """

    def __init__(self, connections: int, wait: Callable[[float], None], down: Down) -> None:
        self._wait, self._down = wait, down
        trusted = sources.ca_bundle() or True
        self._web = new_session(trusted, connections)
        self._debian = new_session(trusted, connections)
        self._debian.proxies = sources.apt_proxies()
        self._links, self._indexes = sources.find_links(), sources.wheel_indexes()
        self._mirrors, self._snapshots = sources.debian_mirrors(), sources.debian_snapshots()

    def session(self, each: Input) -> requests.Session:
        """The session to ask for an input with: apt's proxies are for Debian alone."""
        return self._web if each.kind == "wheel" else self._debian

    def __call__(self, each: Input) -> Iterator[str | Failed]:
        """URLs and paths of an input; a Failed for an index that does not have it."""
        if each.kind != "wheel":
            yield from of_package(each, self._mirrors, self._snapshots)
            return
        project = canonicalize_name(each.name)
        for place in self._links + self._indexes:
            if (folder := sources.folder_of(place)) and not folder.is_file():
                yield str(folder / each.pin.file)
                continue
            url = place if place in self._links else f"{place}/{project}/"
            yield from index.find(self._web, [url], each.pin.file, each.pin.sha256,
                                  self._wait, self._down)

    def close(self) -> None:
        """Close all connections."""
        self._web.close()
        self._debian.close()


def of_package(each: Input, mirrors: list[str], snapshots: list[str]) -> Iterator[str]:
    """Where a Debian package may be: mirrors and folders, then snapshots of the lock's date."""
    for mirror in mirrors:
        if folder := sources.folder_of(mirror):
            yield str(folder / each.pool)
            yield str(folder / each.pin.file)
        else:
            yield f"{mirror}/{quote(each.pool)}"
    for snapshot in snapshots:
        yield f"{snapshot}/{snapshot_stamp(each.lock_date)}/{quote(each.pool)}"


def snapshot_stamp(date: str) -> str:
    """The time to ask a snapshot archive with for what a lock of this date pins.

    Args:
        date: as a Release file writes it.
    """
    return (parsedate_to_datetime(date) + AFTER_RELEASE).strftime("%Y%m%dT%H%M%SZ")
