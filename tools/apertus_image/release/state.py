"""What a release has done: a folder with one file for each step that is finished."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from apertus_image.errors import UserError
from apertus_image.place.whole import write_whole

__all__ = ["Done", "Folder", "digest_of"]


@dataclass(frozen=True)
class Done:
    """A finished step.

    Attributes:
        result: what later steps take from it.
        before: digest over the results of the steps before it, as they were then.
        times: `started`, `ended` (seconds since 1970), `attempts`, and `job` under Slurm.
    """

    result: dict[str, Any]
    before: str
    times: dict[str, Any]


class Folder:
    """A release's own folder.

    Args:
        path: made when something is first written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "files"

    def make(self) -> None:
        """Make the folder and what it always has.

        Raises:
            UserError: it cannot be made.
        """
        try:
            for each in (self.files, self.path / "steps", self.path / "logs"):
                each.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError("the release's folder cannot be made", where=self.path,
                            got=error.strerror,
                            next_step="name another scratch in the profile") from error

    def read(self, step: str) -> Done | None:
        """A finished step; None if it is not, or its file is not as it was written."""
        try:
            data = json.loads((self.path / "steps" / f"{step}.json").read_bytes())
            done = Done(data["result"], data["before"], data["times"])
            return done if data["digest"] == digest_of([vars(done)]) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, step: str, done: Done) -> None:
        """Note that a step is finished."""
        write_whole(self.path / "steps" / f"{step}.json",
                json.dumps(vars(done) | {"digest": digest_of([vars(done)])}, indent=1).encode())
        self.begun(step).unlink(missing_ok=True)

    def begun(self, step: str) -> Path:
        """The file that counts a step's attempts while it is not finished."""
        return self.path / "steps" / f"{step}.begun"

    def attempted(self, step: str) -> dict[str, Any]:
        """The times of a step that was begun and is not finished; empty if it was not begun."""
        try:
            times = json.loads(self.begun(step).read_bytes())
            return {"attempts": int(times["attempts"]), "started": float(times["started"]),
                    **({"job": int(times["job"])} if "job" in times else {})}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def begin(self, step: str) -> dict[str, Any]:
        """Note that a step is begun, once more; its times so far."""
        times = self.attempted(step)
        times = {"attempts": times.get("attempts", 0) + 1, "started": round(time.time(), 3)}
        if job := os.environ.get("SLURM_JOB_ID"):
            times["job"] = int(job)
        write_whole(self.begun(step), json.dumps(times).encode())
        return times

    @contextlib.contextmanager
    def locked(self, *, afresh: bool = False) -> Iterator[None]:
        """While one process works on the release; the kernel frees the lock of a killed one.

        Args:
            afresh: remove all that an earlier one did.

        Raises:
            UserError: another works on it, or the folder cannot be written.
        """
        self.make()
        with contextlib.ExitStack() as stack:
            try:
                held = stack.enter_context((self.path / "lock").open("a+"))
                self._take(held)
                if afresh:
                    self._clear()
                for left in self.path.rglob(".*.part"):  # of a run that was killed
                    if left.is_file():
                        left.unlink()
            except OSError as error:
                raise UserError("the release's folder cannot be used", where=self.path,
                                got=error.strerror, next_step="make room if it is full, or name "
                                "another scratch in the profile") from error
            yield

    def _clear(self) -> None:
        for each in self.path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != "lock":
                each.unlink()
        self.make()

    def _take(self, held: TextIO) -> None:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            held.seek(0)
            raise UserError("another process works on this release", where=self.path,
                            got=held.read().strip() or None,
                            next_step="wait for it; tools/release status shows its steps",
                            ) from error
        held.seek(0)
        held.truncate()
        held.write(f"process {os.getpid()} on {os.uname().nodename}")
        held.flush()


def digest_of(results: list[dict[str, Any]]) -> str:
    """A digest over steps' results."""
    return hashlib.sha256(json.dumps(results, sort_keys=True).encode()).hexdigest()
