"""One path of an exported tree, and where its bytes come from."""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Node", "Piece", "order"]


class Piece(NamedTuple):
    """Consecutive bytes of a file: part of a file on disk, bytes given here, or zeros.

    Attributes:
        length: bytes.
        file: where they lie; empty for the others.
        offset: bytes into `file`.
        data: the bytes themselves; None with an empty `file` means zeros (a hole).
    """

    length: int
    file: str = ""
    offset: int = 0
    data: bytes | None = None


class Node(NamedTuple):
    """One path of a tree.

    Attributes:
        path: absolute, `/` for the root.
        type: `dir`, `file`, `link` or `fifo`.
        mode: permission bits.
        size: bytes, files only.
        target: links only.
        pieces: a file's bytes, in order.
        sha256: hex, of a file's bytes, where its layer has been read for it already.
    """

    path: str
    type: str
    mode: int
    size: int = 0
    target: str = ""
    pieces: tuple[Piece, ...] = ()
    sha256: str = ""


def order(path: str) -> bytes:
    """Sorts depth first, the names of a folder by their bytes: mksquashfs's own order."""
    return os.fsencode(path.rstrip("/")).replace(b"/", b"\0")
