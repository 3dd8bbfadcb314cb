"""The folder a site's registry lives in: data, secret, log, and the lock of its one user."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.place.purge import purged

__all__ = ["Folder", "Holder", "Lock"]

LOG_LIMIT = 16 << 20  # bytes; a longer log is put aside at a start, one generation of it

# `status` holds the lock for a moment to see whether it is free; a start asks again.
TRIES, PAUSE = 10, 0.1


@dataclass(frozen=True)
class Holder:
    """Who has, or last had, the folder's lock, as the lock file says.

    Attributes:
        doing: `serve` or `fsck`.
        address: HOST:PORT once a server answers there.
        port: where the last server answered, whoever holds the lock now.
    """

    doing: str = "unknown"
    pid: int = 0
    host: str = ""
    address: str | None = None
    port: int | None = None

    @property
    def here(self) -> bool:
        """Whether it is on this machine."""
        return self.host == socket.gethostname()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.doing})"


class Lock:
    """The lock, held by this process and by every child that inherits its descriptor."""

    def __init__(self, file: FileIO, doing: str, port: int | None) -> None:
        self._file = file
        self.fd, self.port = file.fileno(), port
        self._holder = Holder(doing, os.getpid(), socket.gethostname(), port=port)
        self._tell()

    def answers(self, address: str) -> None:
        """Note, for those that find the lock held, where a server answers."""
        port = int(address.rpartition(":")[2])
        self._holder = replace(self._holder, address=address, port=port)
        self._tell()

    def _tell(self) -> None:
        self._file.truncate(0)
        self._file.write(json.dumps(asdict(self._holder)).encode() + b"\n")


class Folder:
    """A folder of `tools/registry`.

    Attributes:
        path: absolute.
        data: the registry's root directory.
        log: what the registry writes.
        config: its configuration, written at every start.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.data, self.log = self.path / "data", self.path / "registry.log"
        self.config = self.path / "config.yml"
        self._lock, self._secret = self.path / "lock", self.path / "http.secret"

    def existing(self) -> Folder:
        """This folder, which must be a registry's.

        Raises:
            UserError: it is not.
        """
        try:
            there = self._lock.exists()
        except PermissionError as error:
            raise self.unusable(error) from error
        if not there:
            raise UserError("no registry lives here", where=self.path,
                            expected="a folder that `tools/registry serve` made",
                            got="another folder" if self.path.exists() else "nothing",
                            next_step=f"tools/registry serve {self.path}")
        return self

    def prepare(self, *, cache: bool) -> None:
        """Make the folder what a server needs.

        Args:
            cache: losing parts of it is acceptable.

        Raises:
            UserError: files are purged there and it is no cache; other things lie there; it
                cannot be written.
        """
        if not cache and (purge := purged(self.path)):
            raise UserError(
                "a registry would lose parts here", where=self.path,
                expected="a place that keeps files", next_step="choose a folder on Store or in "
                "the project's space, or say --cache if every image can be pushed again",
                got=f"{purge.prefix} deletes each file that nobody read for {purge.days} days")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = [each.name for each in self.path.iterdir()]
            if names and self._lock.name not in names:
                raise UserError("the folder holds other things", where=self.path,
                                expected="an empty folder, or a registry's",
                                next_step="name a folder of its own")
            self._lock.touch()  # first: what has no lock is not ours
            self.data.mkdir(exist_ok=True)
        except OSError as error:
            raise self.unusable(error) from error

    @contextlib.contextmanager
    def hold(self, doing: str) -> Iterator[Lock]:
        """Have the folder alone; the kernel ends this with the last process that has it.

        Raises:
            UserError: another has it; its file system has no locks.
        """
        try:
            file = self._lock.open("ab", buffering=0)
        except OSError as error:
            raise self.unusable(error) from error
        with file:
            for left in reversed(range(TRIES)):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if not left:
                        raise self._held() from None
                    time.sleep(PAUSE)
                except OSError as error:
                    raise UserError("this file system has no locks", where=self.path,
                                    got=error.strerror, next_step="choose a folder on another "
                                    "one, or have it mounted with flock") from error
            try:
                lock = Lock(file, doing, self._last().port)
            except OSError as error:
                raise self.unusable(error) from error
            yield lock

    def holder(self) -> Holder | None:
        """Who holds the lock now, or None.

        Raises:
            UserError: the folder is another user's.
        """
        try:
            file = self._lock.open(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.unusable(error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return self._last()
        return None

    def _last(self) -> Holder:
        """Who wrote the lock file, whether or not it still runs."""
        try:
            return Holder(**json.loads(self._lock.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return Holder()

    def has_open(self, pid: int) -> bool:
        """Whether a process of this machine has the lock file open: its number may be another's.

        Raises:
            PermissionError: it is another user's process.
        """
        try:
            files = list(Path(f"/proc/{pid}/fd").iterdir())
        except FileNotFoundError:
            return False
        for file in files:
            with contextlib.suppress(OSError):
                if file.samefile(self._lock):
                    return True
        return False

    def secret(self) -> str:
        """What upload addresses are signed with; made once, so that uploads outlive a restart."""
        if not self._secret.exists():
            part = self._secret.with_suffix(".part")
            part.unlink(missing_ok=True)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
                file.flush()
                os.fsync(descriptor)
            part.replace(self._secret)
        return self._secret.read_text(encoding="ascii").strip()

    def turn_log(self) -> None:
        """Put a log aside that has grown long."""
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_LIMIT:
                self.log.replace(self.log.with_suffix(".log.1"))

    def _held(self) -> UserError:
        holder = self._last()
        step = f"tools/registry stop {self.path}" if holder.doing == "serve" else "wait for it"
        if holder.address and holder.here:
            step = f"use it, {holder.address}, or {step}"
        return UserError("the folder is in use", where=self.path, got=holder,
                         expected="one server or fsck a folder", next_step=step)

    def unusable(self, error: OSError) -> UserError:
        """What to tell when the folder cannot be read or written."""
        return UserError("the registry's folder cannot be used", got=error.strerror,
                         where=error.filename or self.path,
                         next_step="make room if it is full, or choose a folder of yours")
