"""The small parts of a chunked upload: how large, which range, what URL closes it."""

from __future__ import annotations

import re
import threading
from urllib.parse import quote, urlsplit

__all__ = ["LARGEST", "SIZE", "ChunkSize", "after_range", "with_digest"]

SIZE = 32 << 20
SMALLEST = 64 << 10
LARGEST = 256 << 20  # a chunk is held in memory


class ChunkSize:
    """How many bytes a host takes in one request: learnt by one upload, used by all (case 18)."""

    def __init__(self, size: int = SIZE) -> None:
        self.size = size
        self._lock = threading.Lock()

    def shrink(self, refused: int, minimum: int = 0) -> bool:
        """Make room under a size that was refused; False where it cannot be any smaller.

        Args:
            minimum: what the registry wants a chunk to have at least.
        """
        smaller = refused // 2
        if smaller < max(SMALLEST, minimum):
            return False
        with self._lock:
            self.size = min(self.size, smaller)
        return True


def after_range(header: str | None, offset: int) -> int | None:
    """The first byte that a Range header (`0-last`) leaves out, None without one.

    `last` counts from the blob's beginning, also where the range itself does not (spec#580).

    Args:
        offset: what is known to have arrived. docker-registry says `0-0` of an empty upload and
            of one byte (notes on pushing, its table).
    """
    found = re.fullmatch(r"(?:bytes=)?\d+-(\d+)", (header or "").strip())
    if not found:
        return None
    last = int(found[1])
    return last + 1 if last or offset == 1 else 0


def with_digest(location: str, digest: str) -> str:
    """The URL that closes an upload: its parameters kept, the digest added once (case 17)."""
    joint = "&" if urlsplit(location).query else "?"
    return f"{location}{joint}digest={quote(digest, safe='')}"
