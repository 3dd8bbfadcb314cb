"""Leaving a process behind once it has said that it is ready."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["detached"]


def detached(work: Callable[[Callable[[str], None]], None], log: Path) -> str:
    """Run `work` in a child and return the word it gives when it is ready; the child goes on.

    Until then it is the terminal's like any child: its errors go to stderr, Ctrl-C ends both,
    and if it fails this process exits with 1. Then it has a session of its own, and what it
    says goes to `log`. The child does not return.

    Args:
        work: called in the child with what takes the word.
    """
    reading, writing = os.pipe()
    if child := os.fork():
        os.close(writing)
        with os.fdopen(reading) as pipe:
            word = pipe.read()
        if word:
            return word
        os.waitpid(child, 0)
        sys.exit(1)
    os.close(reading)

    def ready(word: str) -> None:
        os.setsid()
        with Path(os.devnull).open("rb") as nothing, log.open("ab") as end:
            os.dup2(nothing.fileno(), 0)
            os.dup2(end.fileno(), 1)
            os.dup2(end.fileno(), 2)
        os.write(writing, word.encode())
        os.close(writing)

    work(ready)
    sys.exit(0)
