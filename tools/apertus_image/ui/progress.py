"""One line of progress on stderr, only on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

__all__ = ["Progress", "size"]

INTERVAL = 0.2


def size(count: float) -> str:
    """Bytes in the unit a person reads: 1.5 GB."""
    for unit in ("B", "kB", "MB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


class Progress:
    """What is done of a total, with rate and time left; threads may add to it.

    Args:
        label: what is going on.
        total: bytes, or things of another kind.
        stream: where to write; nothing is written unless it is a terminal.
        form: how an amount is written, default as bytes.
    """

    def __init__(
        self, label: str, total: int, stream: TextIO | None = None,
        form: Callable[[float], str] = size,
    ) -> None:
        stream = stream or sys.stderr
        self.label, self.total, self.done, self._form = label, total, 0, form
        self._stream, self._shown = stream, stream.isatty()
        self._start = self._last = time.monotonic()
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Note `count` more bytes; a negative count takes some back."""
        with self._lock:
            self.done += count
            now = time.monotonic()
            if self._shown and now - self._last >= INTERVAL:
                self._last = now
                self._stream.write(f"\r\x1b[K{self._line(now)}")
                self._stream.flush()

    def _line(self, now: float) -> str:
        rate = self.done / max(now - self._start, 1e-6)
        left = (self.total - self.done) / rate if rate > 0 else 0
        return (f"{self.label}: {self._form(self.done)} of {self._form(self.total)}, "
                f"{self._form(rate)}/s, {left:.0f} s left")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: BaseException | None,
                 _trace: TracebackType | None) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
