"""One file from any of several places: resumed, retried, hashed while it streams."""

from __future__ import annotations

import errno
import hashlib
import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import requests

from apertus_image.errors import UserError

__all__ = ["Pin", "download", "redacted"]

CHUNK = 1 << 20
NETWORK_CHUNK = 1 << 16  # what a cut connection may lose of what had arrived
ATTEMPTS = 4
LONGEST_WAIT = 60.0
RETRIED = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Pin:
    """What a download must turn out to be.

    Attributes:
        file: true file name.
        sha256: hex digest.
        size: bytes.
    """

    file: str
    sha256: str
    size: int


class _Failed(Exception):
    """This place does not have the right file; the next one may."""


def download(
    session: requests.Session,
    pin: Pin,
    places: Iterable[str],
    folder: Path,
    progress: Callable[[int], None] = lambda _count: None,
    wait: Callable[[float], None] = time.sleep,
) -> Path:
    """Bring a file into `folder`; a part left by a killed run is gone on with.

    Args:
        places: URLs or local paths, tried in order; the hash decides, not the place.
        folder: cache directory; the file appears there by rename once it is right.
        progress: called with the number of new bytes (negative when a part is dropped).
        wait: how to pause before a retry, seconds.

    Raises:
        UserError: no place has the file; lists each place with its failure. Also when
            the disk is full, which no other place mends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / pin.file
    if final.is_file() and _digest(final) == pin.sha256:
        progress(pin.size)
        return final
    part = folder / f"{pin.file}.part"
    failures = []
    for place in places:
        try:
            _from(session, pin, place, part, progress, wait)
            part.replace(final)
            return final
        except _Failed as failure:
            failures.append(f"{redacted(place)}: {failure}")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise UserError(
                    "the disk is full", where=part, expected=f"room for {pin.size} bytes",
                    next_step="make room and run the same command: what arrived is kept",
                ) from error
            failures.append(f"{redacted(place)}: {error}")
    raise UserError(
        "a pinned file cannot be had",
        where=pin.file,
        expected=f"sha256 {pin.sha256}, {pin.size} bytes",
        got="\n            ".join(failures) or "no place to ask is configured",
        next_step="check the network, or name other places (docs/recovery.md)",
    )


def _from(session, pin, place, part, progress, wait) -> None:
    """Fill `part` from one place, with retries; raise _Failed if it will not do."""
    if not re.match(r"https?://", place):
        return _copy(pin, Path(place.removeprefix("file://")), part, progress)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _stream(session, pin, place, part, progress)
            return None
        except (requests.ConnectionError, requests.Timeout,
                requests.exceptions.ChunkedEncodingError) as error:
            reason, pause = type(error).__name__, None
        except requests.HTTPError as error:
            status = error.response.status_code
            if status not in RETRIED:
                raise _Failed(f"HTTP {status}") from error
            reason, pause = f"HTTP {status}", _retry_after(error.response)
        if attempt == ATTEMPTS or (pause or 0) > LONGEST_WAIT:
            raise _Failed(f"{reason}, after {attempt} attempts")
        wait(max(pause or 0, random.uniform(0.5, 1.5) * 2 ** (attempt - 1)))
    return None


def _stream(session, pin, url, part, progress) -> None:
    """One request: the rest of the file if the server knows ranges, else all of it."""
    held = part.stat().st_size if part.exists() else 0
    if held > pin.size:
        part.unlink()
        held = 0
    headers = {"Accept-Encoding": "identity"}
    if 0 < held < pin.size:
        headers["Range"] = f"bytes={held}-"
    digest = hashlib.sha256()
    if held < pin.size:
        with session.get(url, headers=headers, stream=True, timeout=(15, 60)) as reply:
            if reply.status_code == 416:
                part.unlink(missing_ok=True)
                raise requests.ConnectionError("range refused")
            reply.raise_for_status()
            resumed = reply.status_code == 206
            if resumed:
                _update(digest, part)
                progress(held)
            _write(reply, part, "ab" if resumed else "wb", digest, progress)
    else:
        _update(digest, part)
        progress(held)
    _verify(pin, part, digest, progress)


def _write(reply, part, mode, digest, progress) -> None:
    with part.open(mode) as out:
        for chunk in reply.iter_content(NETWORK_CHUNK):
            out.write(chunk)
            digest.update(chunk)
            progress(len(chunk))


def _copy(pin: Pin, source: Path, part: Path, progress) -> None:
    if not source.is_file():
        raise _Failed("no such file")
    if (size := source.stat().st_size) != pin.size:
        raise _Failed(f"wrong content: {size} bytes")
    digest = hashlib.sha256()
    with source.open("rb") as data, part.open("wb") as out:
        while chunk := data.read(CHUNK):
            out.write(chunk)
            digest.update(chunk)
            progress(len(chunk))
    _verify(pin, part, digest, progress)


def _verify(pin: Pin, part: Path, digest, progress) -> None:
    """Keep a short part for the next attempt; drop a wrong one."""
    size = part.stat().st_size
    if size < pin.size:
        progress(-size)
        raise requests.ConnectionError(f"cut after {size} of {pin.size} bytes")
    if size != pin.size or digest.hexdigest() != pin.sha256:
        part.unlink()
        progress(-size)
        raise _Failed(f"wrong content: sha256 {digest.hexdigest()}, {size} bytes")


def _update(digest, file: Path) -> None:
    with file.open("rb") as data:
        while chunk := data.read(CHUNK):
            digest.update(chunk)


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    _update(digest, file)
    return digest.hexdigest()


def _retry_after(reply: requests.Response) -> float | None:
    """Retry-After in seconds (RFC 9110, 10.2.3), None where absent or unreadable."""
    value = reply.headers.get("Retry-After", "")
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def redacted(place: str) -> str:
    """A URL without user name and password."""
    parts = urlsplit(place)
    if not parts.username and not parts.password:
        return place
    host = parts.hostname or ""
    return parts._replace(netloc=f"{host}:{parts.port}" if parts.port else host).geturl()
