"""What is known of uploads that were begun: written after every step, read by the next run.

A registry forgets nothing of an upload when its client is killed; the client does, unless it
wrote down where it was (case 12).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["Note", "State", "default_folder"]


def default_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where uploads are noted: $XDG_STATE_HOME/apertus-image/uploads."""
    environment = os.environ if environment is None else environment
    home = environment.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local/state") / "apertus-image/uploads"


class Note:
    """One blob's upload to one repository, while its lock is held.

    A Location may be signed, so that whoever has it may write: the file is the user's alone.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def read(self) -> tuple[str, int] | None:
        """(Location, bytes acknowledged), None if nothing usable is noted."""
        try:
            data = json.loads(self._file.read_bytes()) if self._file else None
            location, offset = data["location"], data["offset"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        usable = isinstance(location, str) and isinstance(offset, int) and offset >= 0
        return (location, offset) if usable else None

    def write(self, location: str, offset: int) -> None:
        """Note the newest Location and how much of the blob it holds.

        A note that cannot be written costs the next run time, and this one nothing.
        """
        if self._file is None:
            return
        part = self._file.with_suffix(".part")  # one writer: the lock's holder
        with contextlib.suppress(OSError):
            part.touch(0o600)
            part.write_text(json.dumps({"location": location, "offset": offset}))
            part.replace(self._file)

    def clear(self) -> None:
        """Forget the upload."""
        if self._file:
            for each in (self._file, self._file.with_suffix(".part")):
                each.unlink(missing_ok=True)


class State:
    """The notes of one user.

    Args:
        folder: made when it is first needed; None notes nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def note(self, base: str, repository: str, digest: str) -> Iterator[Note]:
        """The note of an upload, locked: two pushes do not write to one session.

        A push that comes second, or cannot write here, gets a note that remembers nothing and
        opens a session of its own.
        """
        name = _name(base, repository, digest)
        with contextlib.ExitStack() as held:
            try:
                if self._folder is None:
                    raise OSError
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                lock = self._folder / f"{name}.lock"
                file = held.enter_context(lock.open("a"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield Note(None)
                return
            try:
                yield Note(self._folder / f"{name}.json")
            finally:
                if not (self._folder / f"{name}.json").exists():
                    lock.unlink(missing_ok=True)

    def acknowledged(self) -> dict[str, int]:
        """Bytes that each noted upload is known to hold, by the last part of its Location."""
        files = self._folder.glob("*.json") if self._folder else ()
        noted = filter(None, (Note(file).read() for file in files))
        return {urlsplit(location).path.rpartition("/")[2]: offset for location, offset in noted}

    def forget(self, base: str, repository: str, digest: str) -> None:
        """Remove what a run that was killed noted of a blob that is whole by now.

        Another push that is at it keeps its note.
        """
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            (self._folder / f"{_name(base, repository, digest)}.lock").stat()  # notes have one
            with self.note(base, repository, digest) as note:
                note.clear()


def _name(base: str, repository: str, digest: str) -> str:
    return hashlib.sha256(f"{base}\n{repository}\n{digest}".encode()).hexdigest()[:32]
