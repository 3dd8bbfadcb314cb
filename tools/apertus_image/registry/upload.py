"""One blob into a registry, in chunks, from where it was left (distribution-spec, "Pushing a blob
in chunks").

What the registry acknowledged is never sent again: a 202 is believed whatever Range it names,
and after anything else the registry is asked how much it holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from apertus_image.errors import UserError
from apertus_image.fetch.web import redacted
from apertus_image.registry.blobs import Blob, Reader
from apertus_image.registry.chunks import ChunkSize, after_range
from apertus_image.registry.client import ATTEMPTS, RETRIED, Client
from apertus_image.registry.reply import Lost, Refused, Reply
from apertus_image.registry.session import Session
from apertus_image.registry.state import Note

__all__ = ["Outcome", "upload"]

RESTARTS = 5


@dataclass
class Outcome:
    """What became of a blob.

    Attributes:
        what: `exists`, `mounted`, `uploaded`, or `resumed` where an earlier run had begun.
        sent: bytes of it that were sent, those that did not arrive included.
        again: how many of them had been sent before, by this run or an earlier one.
        reread: bytes read again for the digest's sake, and not sent.
    """

    what: str
    sent: int = 0
    again: int = 0
    reread: int = 0


class _Restart(Exception):
    """The session is of no more use; the blob begins anew."""

    def __init__(self, error: UserError, *, counts: bool = True) -> None:
        super().__init__(error.what)
        self.error, self.counts = error, counts


def upload(
    client: Client, repository: str, blob: Blob, *, chunk: ChunkSize, note: Note, scope: str,
    mount: str = "", say: Callable[[str], None] = lambda _line: None,
    progress: Callable[[int], None] = lambda _count: None,
    stopped: Callable[[], None] = lambda: None,
) -> Outcome:
    """Bring a blob that is not there into a repository.

    Args:
        chunk: bytes of a request, shared by all uploads to the host.
        note: where the session is kept between runs.
        scope: what a token has to allow.
        mount: a repository of the same registry that may have the blob.
        say: told when bytes are read or sent again.
        progress: called with the number of bytes that arrived, negative where they were lost.
        stopped: raises when the upload is to end; called between chunks.

    Raises:
        UserError: the blob's bytes are no longer what its digest says (nothing is closed then),
            or the registry does not take it.
    """
    session = Session(client, repository, blob.digest, scope)
    return _Upload(session, blob, chunk, note, say, progress, stopped).run(mount)


class _Upload:
    def __init__(self, session: Session, blob: Blob, chunk: ChunkSize, note: Note,
                 say: Callable[[str], None], progress: Callable[[int], None],
                 stopped: Callable[[], None]) -> None:
        self.session, self.blob, self.chunk, self.note = session, blob, chunk, note
        self.say, self.progress, self.stopped = say, progress, stopped
        self.name = f"{blob.digest[:19]}…"
        self.outcome = Outcome("uploaded")
        self.offset = self.furthest = self.told = 0
        self.failures = 0  # since the registry last held more than ever before
        self.damaged = False  # it once said that it had received other bytes
        self.odd: tuple[str, str] | None = None  # the first Range that was not the one due
        self.reader: Reader | None = None
        self.window, self.window_end = memoryview(b""), 0

    def run(self, mount: str) -> Outcome:
        noted, start, restarts = self.note.read(), 0, 0
        if noted and self._resumed(*noted):
            self.outcome.what, start = "resumed", self.offset
            self.say(f"{self.name}: goes on at {self.offset} of {self.blob.size} bytes")
        elif self._open(mount):
            return Outcome("mounted")
        while True:
            try:
                self._send()
                break
            except _Restart as why:
                restarts += why.counts
                if restarts > RESTARTS:
                    raise why.error from why
                if self.offset:
                    self.say(f"{self.name}: begins anew, {self.offset} bytes were lost: "
                             f"{why.error.got}")
                self._open("")
        self.note.clear()
        self.outcome.again = max(0, self.outcome.sent + start - self.blob.size)
        self._tell(self.blob.size)
        return self.outcome

    # A session: opened, found again, given up.

    def _open(self, mount: str) -> bool:
        """Open a session; whether the blob was mounted instead."""
        self.note.clear()
        self.offset, self.reader, self.window, self.window_end = 0, None, memoryview(b""), 0
        self._tell(0)
        if not (mounted := self.session.open(mount)):
            self.note.write(self.session.location, 0)
        return mounted

    def _resumed(self, location: str, offset: int) -> bool:
        self.session.location, self.offset = location, offset
        held = self.session.held(offset)
        if held is None or not 0 <= held <= self.blob.size:
            self.say(f"{self.name}: the registry no longer knows the upload that was begun")
            return False
        self._move(held)
        return True

    @contextlib.contextmanager
    def _cancelled_if_changed(self) -> Iterator[None]:
        """A blob whose bytes have changed leaves no session behind."""
        try:
            yield
        except UserError:
            self.note.clear()
            self.session.cancel()
            raise

    # Bytes: read, sent, sent again.

    def _send(self) -> None:
        while True:
            self.stopped()
            piece = self._piece()
            if self.offset + len(piece) < self.blob.size or (piece and self.offset):
                self._patch(piece)
                del piece  # its memory goes before the next one is filled
                continue
            with self._cancelled_if_changed():
                self.reader.check()
            if self._close(piece):
                return

    def _piece(self) -> memoryview:
        """What comes next after `offset`, empty at the end."""
        start = self.window_end - len(self.window)
        if self.reader is None or self.offset < start:
            self._reread()
        elif self.offset > self.window_end:
            raise _Restart(UserError("the registry holds more than was sent",
                                     where=redacted(self.session.location),
                                     expected=self.window_end, got=f"{self.offset} bytes"))
        size = max(self.chunk.size, self.session.minimum)
        if self.offset == self.window_end:
            self.window = memoryview(b"")
            room = memoryview(bytearray(min(size, self.blob.size - self.offset)))
            with self._cancelled_if_changed():
                self.reader.fill(room)
            self.window, self.window_end = room, self.offset + len(room)
        start = self.window_end - len(self.window)
        return self.window[self.offset - start :][:size]

    def _reread(self) -> None:
        if self.offset:
            self.say(f"{self.name}: reads {self.offset} bytes again, which are not sent again")
            self.outcome.reread += self.offset
        self.reader = Reader(self.blob)
        with self._cancelled_if_changed():
            self.reader.skip(self.offset)
        self.window, self.window_end = memoryview(b""), self.offset

    def _patch(self, piece: memoryview) -> None:
        last = self.offset + len(piece) - 1
        self.outcome.sent += len(piece)
        try:
            reply = self.session.patch(piece, self.offset)
        except (Refused, Lost) as error:
            self._mend(error, len(piece))
            return
        came = reply.headers.get("Range")
        if came and came.removeprefix("bytes=") != f"0-{last}" and self.odd is None:
            self.odd = (f"0-{last}", came)
        self._move(last + 1)

    def _move(self, offset: int) -> None:
        """The registry holds so much."""
        if offset > self.furthest:
            self.furthest, self.failures = offset, 0
        self.offset = offset
        self.note.write(self.session.location, offset)
        self._tell(offset)

    def _tell(self, offset: int) -> None:
        if offset != self.told:
            self.progress(offset - self.told)
        self.told = offset

    def _close(self, piece: memoryview) -> bool:
        """Close the session, with the whole of a small blob; False if there is more to send."""
        self.outcome.sent += len(piece)
        try:
            self.session.close(piece)
        except (Refused, Lost) as error:
            if isinstance(error, Refused) and "DIGEST_INVALID" in error.codes:
                raise self._wrong(error) from error
            lost = isinstance(error, Lost) or error.status == 404 or error.status >= 500
            if lost and self.session.stored() == self.blob.size:
                return True  # it was the answer that got lost
            self._mend(error, len(piece))
            return False
        return True

    def _wrong(self, error: Refused) -> Exception:
        """The registry has other bytes, though what was read here has the right digest."""
        due, came = self.odd or ("", "")
        told = UserError(
            "the registry says that it received other bytes than were sent", where=error.where,
            expected=self.blob.digest + (f"; Range {due} after a chunk" if due else ""),
            got=f"{error.got}" + (f"; Range {came}" if came else ""),
            next_step="run it again; if it stays so, ask the registry's keeper")
        if self.damaged:
            self.note.clear()
            return told
        self.damaged = True
        return _Restart(told)

    # Faults: wait, ask how much is there, make smaller, begin anew.

    def _mend(self, error: Refused | Lost, size: int) -> None:
        """Set things right after a body of `size` bytes was not acknowledged, or give up."""
        self.failures += 1
        if self.failures >= ATTEMPTS:
            raise error
        if isinstance(error, Lost):
            if not error.again:
                raise error
            self._pause(None, error.got)
            if self.failures > 1:  # some proxies cut what is too large for them without a word
                self.chunk.shrink(size, self.session.minimum)
            self._ask(error)
        elif error.status in (413, 416):
            self._resize(error, size)
        elif error.status in RETRIED:
            self._pause(error, f"HTTP {error.status}")
            if error.status != 429:  # which says that nothing was taken
                self._ask(error)
        elif error.status == 404 or error.codes & {"BLOB_UPLOAD_INVALID", "BLOB_UPLOAD_UNKNOWN"}:
            raise _Restart(error)
        else:
            raise error

    def _pause(self, refused: Refused | None, why: object) -> None:
        client = self.session.client
        client.pause(self.failures, refused, f"{client.host}: {why}")

    def _resize(self, error: Refused, size: int) -> None:
        """After 413 or 416: in the wrong place, or too large (cases 16 and 18)."""
        held = after_range(error.headers.get("Range"), self.offset)
        if held is None or error.status == 413:
            held = self._held()
        elif location := error.headers.get("Location"):
            self.session.take(Reply(error.status, {"Location": location}, b"", error.url))
        if held in (None, self.offset):
            if not self.chunk.shrink(size, self.session.minimum):
                raise error
            self.failures = 0  # sizes come to an end by themselves
        if held is None:
            raise _Restart(error, counts=False)
        self._move(held)

    def _held(self) -> int | None:
        """What the registry says it holds; where its Ranges are known to be stale, no less than
        it has acknowledged (case 15)."""
        held = self.session.held(self.offset)
        return max(held, self.offset) if held is not None and self.odd else held

    def _ask(self, error: Refused | Lost) -> None:
        held = self._held()
        if held is None or held > self.blob.size:
            raise _Restart(error)
        self._move(held)
