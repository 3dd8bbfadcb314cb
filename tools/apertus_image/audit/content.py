"""The first entry that differs in two trees, and how."""

from __future__ import annotations

import difflib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apertus_image.audit.report import Difference
from apertus_image.squashfs.content import contents, sha256_of
from apertus_image.squashfs.node import Node, order
from apertus_image.squashfs.tree import LayerTree

__all__ = ["Entries", "difference", "entries_of"]

LARGEST = 1 << 20  # of a file that is shown
FEW = 20  # files that are tried
LINES = 40
SECONDS = 120


@dataclass
class Entries:
    """A tree whose files can be read.

    Attributes:
        nodes: path -> node.
        hashed: gives a file's SHA-256 (hex).
        read: gives a file's bytes.
        owners: path -> (uid, gid), where the tree has them.
        size: bytes of all files.
    """

    nodes: Mapping[str, Node]
    hashed: Callable[[Node], str]
    read: Callable[[Node], bytes]
    owners: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(node.size for node in self.nodes.values())


def entries_of(layer: LayerTree, progress: Callable[[int], None] = lambda _bytes: None) -> Entries:
    """A layer's; what hides lower layers' files is an entry too."""
    nodes = dict(layer.nodes)
    nodes |= {f"{path} (whiteout)": Node(f"{path} (whiteout)", "whiteout", 0)
              for path in layer.whiteouts}
    nodes |= {f"{path} (opaque)": Node(f"{path} (opaque)", "opaque", 0) for path in layer.opaque}

    def hashed(node: Node) -> str:
        return sha256_of(node, progress)

    def read(node: Node) -> bytes:
        return b"".join(data for piece in node.pieces for data in contents(piece))

    return Entries(nodes, hashed, read)


def difference(old: Entries, new: Entries, layer: str = "") -> Difference | None:
    """The first entry that differs, depth first with a folder's names by their bytes.

    Args:
        layer: what the two are called.
    """
    found = [(path, each) for path in sorted({*old.nodes, *new.nodes}, key=order)
             if (each := _fields(path, old, new))]
    if not found:
        return None
    path, (what, was, now) = found[0]
    files = [path for path, (what, *_) in found if what in ("content", "size")][:FEW]
    # Bytecode comes before its source: what a person can read says more of both.
    text = next(filter(None, (_text(old, new, each) for each in files)), "")
    if not text and what in ("content", "size"):
        text = _diffoscope(old, new, path)
    return Difference(layer, path, what, was, now, len(found), text)


def _fields(path: str, old: Entries, new: Entries) -> tuple[str, str, str] | None:
    before, after = old.nodes.get(path), new.nodes.get(path)
    if before is None or after is None:
        return "presence", before.type if before else "absent", after.type if after else "absent"
    for what, form in (("type", str), ("mode", "{:04o}".format), ("target", str)):
        one, other = getattr(before, what), getattr(after, what)
        if one != other:
            return what, form(one), form(other)
    if old.owners.get(path) != new.owners.get(path):
        return "owner", *("{}:{}".format(*each.owners.get(path, ("", "")))
                          for each in (old, new))
    if before.size != after.size:
        return "size", str(before.size), str(after.size)
    if before.type == "file" and (one := old.hashed(before)) != (other := new.hashed(after)):
        return "content", f"sha256:{one}", f"sha256:{other}"
    return None


def _text(old: Entries, new: Entries, path: str) -> str:
    """What differs in two files; nothing where one is no text, or too large to look at."""
    nodes = old.nodes[path], new.nodes[path]
    if any(node.size > LARGEST for node in nodes):
        return ""
    try:
        texts = [data.decode().splitlines() for data in (old.read(nodes[0]), new.read(nodes[1]))
                 if b"\0" not in data]
    except UnicodeDecodeError:
        return ""
    if len(texts) < 2:
        return ""
    lines = difflib.unified_diff(*texts, f"old{path}", f"new{path}", lineterm="", n=1)
    return _cut(lines)


def _diffoscope(old: Entries, new: Entries, path: str) -> str:
    """What diffoscope says of two files that are no text, where it is installed."""
    program = shutil.which("diffoscope")
    nodes = old.nodes[path], new.nodes[path]
    if program is None or any(node.size > LARGEST for node in nodes):
        return ""
    with tempfile.TemporaryDirectory(prefix="apertus-audit.") as scratch:
        files = []
        for side, entries, node in zip(("old", "new"), (old, new), nodes, strict=True):
            file = Path(scratch, side, Path(path).name)
            file.parent.mkdir()
            file.write_bytes(entries.read(node))
            files.append(str(file))
        try:
            said = subprocess.run([program, "--text", "-", *files], capture_output=True,
                                  text=True, timeout=SECONDS, cwd=scratch)
        except (OSError, subprocess.TimeoutExpired):
            return ""  # it is a help to the reader; the finding stands without it
    return _cut(said.stdout.splitlines())


def _cut(lines: Iterable[str]) -> str:
    found = list(lines)
    more = [f"… {len(found) - LINES} more lines"] if len(found) > LINES else []
    return "\n".join([line[:200] for line in found[:LINES]] + more)
