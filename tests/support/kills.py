"""Releases that are killed, each process of theirs watched until it is gone."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from apertus_image.release.profile import STEPS

__all__ = ["Aim", "Run", "adopting", "run"]

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
LETTING_GO = 120.0  # seconds that what was not killed itself may take to end
POLL = 0.0005
BEGUN, FINISHED = re.compile(r"(\w+) …$"), re.compile(r"(\w+): done( before)?")


class Process(NamedTuple):
    """A process; numbers are given again, so its start (clock ticks) belongs to it."""

    pid: int
    start: int
    name: str

    def lives(self) -> bool:
        found = _status(self.pid)
        return found is not None and found[0].start == self.start and not found[2]


@dataclass(frozen=True)
class Aim:
    """When a run is to be killed, counted from the line that says that a step is begun.

    Whatever comes first; and no later step gets further than its own line.

    Attributes:
        step: as the line names it.
        after: seconds.
        until: called at the line; gives what says whether the moment has come.
        moment: that moment in words, for people.
    """

    step: str
    after: float = math.inf
    until: Callable[[], Callable[[], bool]] = lambda: lambda: False
    moment: str = ""

    def __str__(self) -> str:
        after = "its line" if self.after <= 0 else f"{self.after:.1f} s"
        return f"{self.step}, " + " or ".join(filter(None, (
            after if self.after < math.inf else "", self.moment)))


@dataclass
class Run:
    """One run of a release, killed or not.

    Attributes:
        lines: of stderr, with the seconds since the start at which each came.
        output: of stdout.
        code: its exit code, -9 if it was killed.
        killed: seconds since the start at which it was.
        running: the processes of it that lived then, its own left out.
    """

    lines: list[tuple[float, str]] = field(default_factory=list)
    output: str = ""
    code: int = 0
    killed: float | None = None
    running: list[Process] = field(default_factory=list)
    _left: threading.Thread | None = None
    _gone: float = 0.0

    @property
    def gone(self) -> float:
        """Seconds from its kill to the end of the last process that lived then; waits for it."""
        if self._left:
            self._left.join()
        return self._gone

    def watch(self) -> None:
        """Note when the last of its processes ends, while others go on."""
        def wait() -> None:
            while any(process.lives() for process in self.running):
                time.sleep(0.01)
            self._gone = time.monotonic() - since

        since = time.monotonic()
        self._left = threading.Thread(target=wait)
        self._left.start()

    @property
    def said(self) -> str:
        return "\n".join(line for _, line in self.lines)

    @property
    def begun(self) -> dict[str, float]:
        """Step -> when its line came."""
        return {found[1]: when for when, line in self.lines if (found := BEGUN.match(line))}

    @property
    def lengths(self) -> dict[str, float]:
        """Seconds that each finished step took."""
        begun = self.begun
        return {found[1]: when - begun[found[1]] for when, line in self.lines
                if (found := FINISHED.match(line)) and not found[2]}

    @property
    def before(self) -> list[str]:
        """Steps that were taken as done."""
        return [found[1] for _, line in self.lines if (found := FINISHED.match(line)) and found[2]]

    @property
    def step(self) -> str:
        """The last step that was begun and not finished; empty between two, and at the end."""
        lengths = self.lengths
        return next((step for step in reversed(self.begun) if step not in lengths), "")


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Within it, whatever loses its parent becomes this process's child, so it is found.

    Raises:
        AssertionError: a process that was started within it outlives it.
    """
    before = {process.pid for process in _descendants(os.getpid())}
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
        end = time.monotonic() + LETTING_GO
        while left := [each for each in _descendants(os.getpid()) if each.pid not in before]:
            assert time.monotonic() < end, f"left over: {left}"
            time.sleep(0.01)
    finally:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)


def run(command: Sequence[str | Path], environment: Mapping[str, str], aim: Aim | None = None
        ) -> Run:
    """Run a release until it ends, or until its process group is killed at the moment aimed at.

    What it has started and does not end with it may go on: `Run.gone` waits for it.
    """
    done, over, lock, started = Run(), threading.Event(), threading.Lock(), time.monotonic()
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)

    def kill() -> None:
        with lock, contextlib.suppress(ProcessLookupError):
            if done.killed is None:
                os.killpg(process.pid, signal.SIGSTOP)  # what is looked at now is what is killed
                done.running = _descendants(process.pid)
                done.killed = time.monotonic() - started
                os.killpg(process.pid, signal.SIGKILL)
                done.watch()

    def wait() -> None:
        end, come = time.monotonic() + aim.after, aim.until()
        while time.monotonic() < end and not come():
            if over.wait(POLL):
                return
        kill()

    waiting = threading.Thread(target=wait)
    later = STEPS[STEPS.index(aim.step) + 1:] if aim else ()
    with process:
        for line in process.stderr:  # until the last process that has it is gone
            done.lines.append((time.monotonic() - started, line.rstrip()))
            step = BEGUN.match(line)
            if aim and step and step[1] == aim.step:
                waiting.start()
            elif step and step[1] in later:
                kill()
        over.set()
        done.output = process.stdout.read().strip()
    if waiting.ident:
        waiting.join()
    done.code = process.returncode
    if done.code != -signal.SIGKILL:  # it had ended before
        done.killed, done.running = None, []
    return done


def _descendants(of: int) -> list[Process]:
    """The processes below one; of this process's own children those that have ended are reaped."""
    children: dict[int, list[Process]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        if found := _status(int(file.parent.name)):
            process, parent, ended = found
            if not ended:
                children.setdefault(parent, []).append(process)
            elif parent == of == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
    below, waiting = [], [of]
    while waiting:
        found = children.get(waiting.pop(), [])
        below += found
        waiting += [process.pid for process in found]
    return below


def _status(pid: int) -> tuple[Process, int, bool] | None:
    """A process with its parent's number and whether it has ended (proc(5), /proc/PID/stat)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
    return Process(pid, int(rest[19]), name), int(rest[1]), rest[0] in "ZX"
