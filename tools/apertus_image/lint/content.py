"""What files hold: no store path, and bytecode that belongs to its source."""

from __future__ import annotations

import _imp
import mmap
import re
import sys
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from apertus_image.lint.findings import Finding
from apertus_image.lint.walk import Entry
from apertus_image.tree.view import View

__all__ = ["check_bytecode", "check_store_paths"]

STORE = "/nix/store"
SHOWN = 60  # bytes of a path that are told
HEADER = 16
HASH_BASED, CHECKED = 1, 2


def check_store_paths(entry: Entry) -> Iterator[Finding]:
    """A store path in a file or link would be a path that the image does not have (trap 5)."""
    if entry.target is not None:
        text = entry.target if STORE in entry.target else None
    else:
        text = _store_path(entry.physical)
    if text is not None:
        yield Finding("store", entry.path, text, f"holds a store path, which the image does not "
                      f"have: {text}; mend what wrote it")


def _store_path(file: Path) -> str | None:
    wanted = STORE.encode()
    if file.stat().st_size < len(wanted):
        return None  # an empty file cannot be mapped
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as data:
        at = data.find(wanted)
        # Up to where the path ends: what follows may be anything, a line's end too.
        return None if at < 0 else re.match(rb"[!-~]*", data[at : at + SHOWN])[0].decode()


def check_bytecode(view: View, path: str, physical: Path) -> Iterator[Finding]:
    """Unchecked-hash bytecode made from the very source beside it (trap 14, PEP 552)."""
    with physical.open("rb") as file:
        header = file.read(HEADER)
    folder, inside, name = path.rpartition("/__pycache__/")
    module, _, rest = name.partition(".cpython-")
    if not inside or not rest:
        yield Finding("bytecode", path, "place", "lies outside __pycache__, where Python would "
                      "import it without a source; leave it out")
        return
    magic, flags = header[:4], int.from_bytes(header[4:8], "little")
    if len(header) < HEADER or flags & (HASH_BASED | CHECKED) != HASH_BASED:
        yield Finding("bytecode", path, "kind", "is not unchecked-hash bytecode; times in an "
                      "image are all equal and cannot tell it is stale; compile it anew")
        return
    ours = sys.implementation.cache_tag.removeprefix("cpython-")
    if rest.split(".")[0] == ours and magic != MAGIC_NUMBER:
        yield Finding("bytecode", path, "magic", "is of another release than its name says, so "
                      "Python would not use it; compile it anew")
    source = view.physical(f"{folder}/{module}.py")
    if source is None:
        yield Finding("bytecode", path, "source", f"has no source at {folder}/{module}.py; leave "
                      "it out")
    elif _source_hash(magic, source.read_bytes()) != header[8:HEADER]:
        yield Finding("bytecode", path, "stale", f"was made from another {folder}/{module}.py, so "
                      "the old code would run; put both into one layer")


def _source_hash(magic: bytes, source: bytes) -> bytes:
    # importlib.util.source_hash is this with the running Python's own magic number for a
    # key; the bytecode's is right whichever Python the lint runs on.
    return _imp.source_hash(int.from_bytes(magic, "little"), source)
