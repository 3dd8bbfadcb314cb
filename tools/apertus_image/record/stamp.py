"""What a full check left behind: that a file of this size, times and inode had this SHA-256.

A changed file has another size, another time of change (ctime, which no program can set) or, where
it was replaced, another inode. So a stamp that still fits proves that nobody wrote to the file
through the file system since it was hashed whole. It does not prove that the disk still gives the
same bytes, nor that nobody wrote past the file system or turned the clock back; `--full` does. The
stamp lies in the user's own cache: who can write there can say anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["Stamps", "cache_folder"]

CHUNK = 1 << 20
TICK = 2.0  # seconds, the coarsest that file systems keep times in


def cache_folder() -> Path:
    """Of this user's stamps."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "apertus-image/verified"


class Stamps:
    """The stamps of one user.

    Args:
        folder: they are kept in; made when the first one is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def known(self, file: Path) -> str | None:
        """The SHA-256 (hex) that a file had when it was hashed whole, if it is that file still."""
        try:
            told = json.loads(self._place(file).read_bytes())
            return told["sha256"] if told["of"] == _of(file) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def hash(self, file: Path, progress: Callable[[int], None] = lambda _bytes: None
             ) -> tuple[str, bool]:
        """A file's SHA-256 (hex), read whole, and whether a stamp of it could be left.

        Raises:
            UserError: the file cannot be read, or changed while it was.
        """
        _wait(file)
        before, digest = _of(file), hashlib.sha256()
        try:
            with file.open("rb") as data:
                while chunk := data.read(CHUNK):
                    digest.update(chunk)
                    progress(len(chunk))
        except OSError as error:
            raise UserError("the file cannot be read", where=file, got=error.strerror,
                            next_step="copy it again from where it was published") from error
        if _of(file) != before:
            raise UserError("the file changed while it was read", where=file,
                            next_step="run it again when nobody writes to it")
        return digest.hexdigest(), self._leave(file, before, digest.hexdigest())

    def _leave(self, file: Path, of: dict[str, int | str], sha256: str) -> bool:
        place = self._place(file)
        part = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            part.write_text(json.dumps({"of": of, "sha256": sha256}))
            part.replace(place)
        except OSError:  # no room, no home: it will be hashed again
            return False
        return True

    def _place(self, file: Path) -> Path:
        return self._folder / f"{hashlib.sha256(os.fsencode(file.resolve())).hexdigest()}.json"


def _of(file: Path) -> dict[str, int | str]:
    """What tells a file from another; no device number, which differs from node to node."""
    status = file.stat()
    return {"path": str(file.resolve()), "size": status.st_size, "inode": status.st_ino,
            "mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}


def _wait(file: Path) -> None:
    """Let a file grow older than its times are coarse: a later change must show in them."""
    age = time.time() - file.stat().st_ctime
    if age < TICK:
        time.sleep(min(TICK - age, TICK))
