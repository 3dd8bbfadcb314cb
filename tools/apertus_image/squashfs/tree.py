"""The tree of an image: its layers merged in order, under Enroot's importer's rules.

Source: notes on Enroot, 1 (measured on 3.4 to 4.1). Owners become 0:0, folders get u+rwx and
files u+r, nothing stays below /dev, extended attributes are lost.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.oci.merge import Entry, merged

__all__ = ["Node", "image_tree"]


@dataclass(frozen=True)
class Node:
    """One path of the exported tree.

    Attributes:
        path: absolute, `/` for the root.
        type: `dir`, `file` or `link`.
        mode: permission bits.
        size: bytes, files only.
        target: links only.
        source: the file on disk whose bytes it has; None for a generated one.
        text: bytes of a generated file.
    """

    path: str
    type: str
    mode: int
    size: int = 0
    target: str = ""
    source: Path | None = None
    text: bytes | None = None


def image_tree(image: Image, generated: Iterable[Node], physical=Path) -> dict[str, Node]:
    """path -> node, sorted by the bytes of the path.

    Args:
        generated: files and folders that are put on top, in place of the image's own.
        physical: where a store path lies on this machine (trap 11).

    Raises:
        UserError: a generated file would lie below something that is no folder.
    """
    nodes: dict[str, Node] = {"/": Node("/", "dir", 0o755)}
    for layer in image.layers:
        for entry in merged(layer.paths, physical):
            if entry.name != "/" and not entry.name.startswith("/dev/"):
                _put(nodes, _imported(entry))
    for node in generated:
        parent = posixpath.dirname(node.path)
        while parent not in nodes:
            _put(nodes, Node(parent, "dir", 0o755))
            parent = posixpath.dirname(parent)
        if nodes[posixpath.dirname(node.path)].type != "dir":
            raise UserError("the image has something else where Enroot wants a folder",
                            where=posixpath.dirname(node.path),
                            got=nodes[posixpath.dirname(node.path)].type,
                            next_step="the lint says why (nix build .#…-lint)")
        if not (node.type == "dir" and nodes.get(node.path, node).type == "dir"
                and node.path in nodes):
            _put(nodes, node)
    return dict(sorted(nodes.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")))


def _imported(entry: Entry) -> Node:
    mode = entry.mode | {"dir": 0o700, "file": 0o400, "link": 0}[entry.type]
    source = Path(entry.source) if entry.type == "file" else None
    return Node(entry.name, entry.type, mode, entry.size, entry.target, source)


def _put(nodes: dict[str, Node], node: Node) -> None:
    """A later layer's entry replaces an earlier one; a folder meets a folder and both stay."""
    earlier = nodes.get(node.path)
    if earlier and earlier.type == "dir" and node.type != "dir":
        below = node.path.rstrip("/") + "/"
        for path in [path for path in nodes if path.startswith(below)]:
            del nodes[path]
    nodes[node.path] = replace(node)
