"""What files hold: no store path, and bytecode that belongs to its source."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from importlib.util import source_hash
from pathlib import Path

from apertus_image.lint.findings import Finding
from apertus_image.tree.view import View

__all__ = ["check_bytecode", "check_store_paths"]

STORE = b"/nix/store/"
HASH_BASED = 1
CHECKED = 2


def check_store_paths(path: str, physical: Path) -> Iterator[Finding]:
    """A store path in a file would be a path that the image does not have (trap 5)."""
    if physical.stat().st_size < len(STORE):
        return
    with physical.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        at = data.find(STORE)
        if at >= 0:
            text = bytes(data[at : at + 60]).decode(errors="replace")
            yield Finding("store", path, text, f"holds a store path: {text}")


def check_bytecode(view: View, path: str, physical: Path) -> Iterator[Finding]:
    """Unchecked-hash bytecode made from the very source beside it (trap 14)."""
    folder, _, name = path.rpartition("/__pycache__/")
    source = f"{folder}/{name.split('.cpython-')[0]}.py"
    with physical.open("rb") as file:
        header = file.read(16)
    flags = int.from_bytes(header[4:8], "little")
    if flags & (HASH_BASED | CHECKED) != HASH_BASED:
        yield Finding("bytecode", path, "kind", "is not unchecked-hash bytecode; times in an "
                      "image are all equal and cannot tell it is stale")
        return
    text = view.physical(source)
    if text is None:
        yield Finding("bytecode", path, "source", f"has no source at {source}")
    elif source_hash(text.read_bytes()) != header[8:16]:
        yield Finding("bytecode", path, "stale", f"was made from another {source}; the old code "
                      "would run")
