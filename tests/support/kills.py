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

from apertus_image.release.profile import STEPS

__all__ = ["Aim", "Run", "adopting", "run"]

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
LETTING_GO = 60.0  # seconds that what was not killed itself may take to end
POLL = 0.0005
BEGUN, FINISHED = re.compile(r"(\w+) …$"), re.compile(r"(\w+): done( before)?")


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
        running: programs of it that lived then, its own left out.
        gone: seconds from its end to the end of the last process it had started.
    """

    lines: list[tuple[float, str]] = field(default_factory=list)
    output: str = ""
    code: int = 0
    killed: float | None = None
    running: list[str] = field(default_factory=list)
    gone: float = 0.0

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
    """Within it, whatever loses its parent becomes this process's child, so `run` finds it."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0)


def run(command: Sequence[str | Path], environment: Mapping[str, str], aim: Aim | None = None
        ) -> Run:
    """Run a release until it ends, or until its process group is killed at the moment aimed at.

    Raises:
        AssertionError: a process that it started outlives it.
    """
    done, others, over = Run(), _descendants(), threading.Event()
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)
    lock, started = threading.Lock(), time.monotonic()

    def kill() -> None:
        with lock, contextlib.suppress(ProcessLookupError):
            if done.killed is None:
                os.killpg(process.pid, signal.SIGSTOP)  # what is looked at now is what is killed
                mine = _descendants(process.pid)
                done.running = sorted({name for pid, name in mine.items() if pid != process.pid})
                done.killed = time.monotonic() - started
                os.killpg(process.pid, signal.SIGKILL)

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
    done.code, ended = process.returncode, time.monotonic()
    if done.code != -signal.SIGKILL:  # it had ended before
        done.killed, done.running = None, []
    if done.killed is not None:
        ended = started + done.killed
    while left := _descendants().keys() - others.keys():
        assert time.monotonic() - ended < LETTING_GO, (
            f"left over: {[_descendants().get(pid) for pid in left]}")
        time.sleep(0.01)
    done.gone = time.monotonic() - ended
    return done


def _descendants(of: int | None = None) -> dict[int, str]:
    """The processes below one, by number, with their names; those that have ended are reaped."""
    of, names, children = of or os.getpid(), {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = file.read_text()
            state, parent = text[text.rindex(")") + 2:].split()[:2]
            pid = int(file.parent.name)
            if state == "Z":
                if int(parent) == os.getpid() and of == os.getpid():
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)
                continue
            names[pid] = text[text.index("(") + 1:text.rindex(")")]
            children.setdefault(int(parent), []).append(pid)
    found, waiting = {}, [of]
    while waiting:
        for pid in children.get(waiting.pop(), []):
            found[pid] = names[pid]
            waiting.append(pid)
    return found
