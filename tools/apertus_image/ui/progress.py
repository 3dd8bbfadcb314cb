"""One line of progress on stderr, only on a terminal."""

from __future__ import annotations

import sys
import threading
import time
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
    """Bytes done of a total, with rate and time left; threads may add to it.

    Args:
        label: what is going on.
        total: bytes.
        stream: where to write; nothing is written unless it is a terminal.
    """

    def __init__(self, label: str, total: int, stream: TextIO = sys.stderr) -> None:
        self.label, self.total, self.done = label, total, 0
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
        return (f"{self.label}: {size(self.done)} of {size(self.total)}, {size(rate)}/s, "
                f"{left:.0f} s left")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: BaseException | None,
                 _trace: TracebackType | None) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
