"""One file from any of several places: resumed, retried, hashed while it streams."""

from __future__ import annotations

import errno
import hashlib
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import requests

from apertus_image.errors import UserError
from apertus_image.fetch.web import TIMEOUT, Down, Failed, insist, redacted

__all__ = ["DiskFull", "Pin", "Unavailable", "download"]

CHUNK = 1 << 20
NETWORK_CHUNK = 1 << 16  # what a cut connection may lose of what had arrived


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


class DiskFull(UserError):
    """No other place mends this."""

    def __init__(self, where: Path, size: int) -> None:
        super().__init__(
            "the disk is full", where=where, expected=f"room for {size} bytes",
            next_step="make room and run the same command: what arrived is kept",
        )


class Unavailable(UserError):
    """No place has a file.

    Attributes:
        pin: the file.
        gone: whether some place answered, without the file: not a network that is down.
    """

    def __init__(self, pin: Pin, failures: list[Failed]) -> None:
        told = [f"{redacted(each.place)}: {each}" for each in failures]
        super().__init__(
            "a pinned file cannot be had",
            where=pin.file,
            expected=f"sha256 {pin.sha256}, {pin.size} bytes",
            got="\n            ".join(told) or "no place to ask is configured",
            next_step="check the network, or name other places (docs/recovery.md)",
        )
        self.pin = pin
        self.gone = any(each.gone for each in failures)


def download(
    session: requests.Session,
    pin: Pin,
    places: Iterable[str | Failed],
    folder: Path,
    progress: Callable[[int], None] = lambda _count: None,
    wait: Callable[[float], None] = time.sleep,
    *,
    down: Down | None = None,
    name: str | None = None,
) -> Path:
    """Bring a file into `folder`; a part left by a killed run is gone on with.

    Args:
        places: URLs or local paths, tried in order; the hash decides, not the place. A
            Failed among them is a place that could not even say where the file is.
        folder: cache directory; the file appears there by rename once it is right.
        progress: called with the number of new bytes (negative when a part is dropped);
            what it raises stops the download, and the part is kept.
        wait: how to pause before a retry, seconds.
        down: hosts not to be asked, shared by many downloads.
        name: what to call the file, by default the pin's own name.

    Raises:
        Unavailable: no place has the file; lists each place with its failure.
        DiskFull: no other place mends that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / (name or pin.file)
    if final.is_file() and final.stat().st_size == pin.size and _digest(final) == pin.sha256:
        progress(pin.size)
        return final
    transfer = _Transfer(session, pin, final.with_name(f"{final.name}.part"), progress)
    failures = []
    for place in places:
        try:
            if isinstance(place, Failed):
                raise place
            transfer.bring(place, wait, down)
            transfer.part.replace(final)
            return final
        except Failed as failure:
            failure.place = failure.place or str(place)
            failures.append(failure)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(transfer.part, pin.size) from error
            failures.append(Failed(error.strerror or type(error).__name__, str(place)))
    transfer.withdraw()
    raise Unavailable(pin, failures)


class _Transfer:
    """A part that grows until it is the pinned file.

    Args:
        part: where what has arrived lies.
        progress: told of every change of the part's size, so that the sum is that size.
    """

    def __init__(
        self, session: requests.Session, pin: Pin, part: Path, progress: Callable[[int], None]
    ) -> None:
        self.session, self.pin, self.part, self._progress = session, pin, part, progress
        self._told = 0
        self._clear()
        self._resumed = False

    def bring(self, place: str, wait: Callable[[float], None], down: Down | None) -> None:
        """Fill the part from one place.

        Raises:
            Failed: the place will not do.
        """
        if not re.match(r"https?://", place):
            return self._copy(Path(place.removeprefix("file://")))
        self._resumed = False
        before = self._held()

        def advanced() -> bool:
            nonlocal before
            before, last = self._held(), before
            return before - last >= CHUNK

        def stream() -> None:
            self._stream(place)

        try:
            insist(stream, place, wait=wait, down=down, advanced=advanced)
        except _Wrong:
            # What was resumed may have been another place's wrong content.
            if not self._resumed:
                raise
            insist(stream, place, wait=wait, down=down, advanced=advanced)
        return None

    def withdraw(self) -> None:
        """Take back what was told: the file did not come."""
        self._tell(0)

    def _held(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _tell(self, size: int) -> None:
        count, self._told = size - self._told, size
        if count:
            self._progress(count)

    def _clear(self) -> None:
        self._digest, self._hashed = hashlib.sha256(), 0

    def _drop(self) -> None:
        self.part.unlink(missing_ok=True)
        self._clear()
        self._tell(0)

    def _stream(self, url: str) -> None:
        """One request: the rest of the file if the server knows ranges, else all of it."""
        held = self._held()
        if held > self.pin.size:
            self._drop()
            held = 0
        if held < self.pin.size:
            headers = {"Accept-Encoding": "identity"}
            if held:
                headers["Range"] = f"bytes={held}-"
            with self.session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as reply:
                if reply.status_code == 416:
                    self._drop()
                    raise requests.ConnectionError("cut off: the range was refused")
                reply.raise_for_status()
                self._write(reply, held)
        else:
            self._resumed = True
            self._read_prefix(held)
        self._verify()

    def _write(self, reply: requests.Response, held: int) -> None:
        start, total = _extent(reply)
        if total is not None and total != self.pin.size:
            raise _Wrong(f"wrong content: {total} bytes")
        if start not in (0, held):
            self._drop()
            raise requests.ConnectionError(f"cut off: asked for byte {held}, given {start}")
        if start:
            self._resumed = True
            self._read_prefix(held)
        else:
            self._clear()
        with self.part.open("ab" if start else "wb") as out:
            for chunk in reply.iter_content(NETWORK_CHUNK):
                if self._hashed + len(chunk) > self.pin.size:
                    break
                out.write(chunk)
                self._add(chunk)
            else:
                return
        self._drop()
        raise _Wrong(f"wrong content: more than {self.pin.size} bytes")

    def _read_prefix(self, held: int) -> None:
        """Hash what is there already, unless this process hashed it as it came."""
        if self._hashed != held:
            self._clear()
            with self.part.open("rb") as data:
                while chunk := data.read(CHUNK):
                    self._add(chunk)

    def _add(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self._hashed += len(chunk)
        self._tell(self._hashed)

    def _copy(self, source: Path) -> None:
        if not source.is_file():
            raise Failed("no such file", gone=True)
        if (size := source.stat().st_size) != self.pin.size:
            raise _Wrong(f"wrong content: {size} bytes")
        self._clear()
        with source.open("rb") as data, self.part.open("wb") as out:
            while chunk := data.read(CHUNK):
                out.write(chunk)
                self._add(chunk)
        self._verify()

    def _verify(self) -> None:
        """Keep a short part for the next attempt; drop a wrong one."""
        if self._hashed < self.pin.size:
            raise requests.ConnectionError(f"cut after {self._hashed} of {self.pin.size} bytes")
        if (found := self._digest.hexdigest()) != self.pin.sha256:
            size = self._hashed
            self._drop()
            raise _Wrong(f"wrong content: sha256 {found}, {size} bytes")


class _Wrong(Failed):
    """The place gave another file."""

    def __init__(self, why: str) -> None:
        super().__init__(why, gone=True)


def _extent(reply: requests.Response) -> tuple[int, int | None]:
    """Where a reply's body starts in the file, and the file's size if it is told.

    A partial reply must say which part it is (RFC 9110, 15.3.7): one that does not is
    given as -1.
    """
    if reply.status_code == 206:
        found = re.match(r"bytes (\d+)-\d+/(\d+|\*)", reply.headers.get("Content-Range", ""))
        if not found:
            return -1, None
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = reply.headers.get("Content-Length", "")
    encoded = reply.headers.get("Content-Encoding", "identity") != "identity"
    return 0, int(length) if length.isdigit() and not encoded else None


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as data:
        while chunk := data.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
