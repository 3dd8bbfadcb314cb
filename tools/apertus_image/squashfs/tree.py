"""The tree of an image: its layers merged in order, as Enroot's importer does it.

Source: notes on Enroot, 1 (measured on 3.4 to 4.1). Every layer is a folder of its own, and
an overlay joins them: a folder meets a folder and both stay, with the upper one's mode;
anything else hides what is below it. Owners become 0:0, folders get u+rwx and files u+r (u+x
where anyone may execute), nothing stays below /dev, extended attributes are lost.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from apertus_image.errors import UserError
from apertus_image.squashfs.node import Node, order

__all__ = ["HARD_LINK", "IMPLIED_MODE", "LayerTree", "merge_layers"]

IMPLIED_MODE = 0o755
HARD_LINK = "hard link"
"""Type of a node that stands for a file of a lower layer."""


@dataclass(frozen=True)
class LayerTree:
    """One layer as a folder of its own.

    Attributes:
        nodes: path -> node.
        whiteouts: paths that hide what lower layers have there.
        opaque: folders that hide all that lower layers have in them.
    """

    nodes: Mapping[str, Node]
    whiteouts: frozenset[str] = field(default_factory=frozenset)
    opaque: frozenset[str] = field(default_factory=frozenset)


def merge_layers(layers: Iterable[LayerTree], generated: Iterable[Node],
                 hidden: Callable[[Node], None] = lambda _node: None) -> dict[str, Node]:
    """path -> node, in mksquashfs's order.

    Args:
        layers: lowest first.
        generated: what Enroot puts on top, in place of the image's own.
        hidden: told what is no folder in the image, and gets one of Enroot's in its place.

    Raises:
        UserError: a hard link to what no lower layer has.
    """
    nodes: dict[str, Node] = {"/": Node("/", "dir", IMPLIED_MODE)}
    for layer in layers:
        linked = _linked(layer, nodes)
        for path in layer.whiteouts:
            _remove(nodes, path)
        for path in layer.opaque:
            _remove_below(nodes, path)
        for node in linked:
            if not node.path.startswith("/dev/"):
                _put(nodes, node._replace(mode=_readable(node)))
    for node in generated:
        _generate(nodes, node, hidden)
    return dict(sorted(nodes.items(), key=lambda item: order(item[0])))


def _linked(layer: LayerTree, lower: Mapping[str, Node]) -> list[Node]:
    """The layer's nodes, a hard link to a lower layer's file being that file."""
    found = []
    for node in layer.nodes.values():
        if node.type == HARD_LINK:
            there = lower.get(node.target)
            if there is None or there.type == "dir":
                raise UserError("a hard link's target is nowhere in the image", where=node.path,
                                expected=f"a file {node.target}", got=there.type if there else None,
                                next_step="build the image again")
            node = there._replace(path=node.path)
        found.append(node)
    return found


def _readable(node: Node) -> int:
    """The mode after Enroot's `chmod u+rX`, and u+w for folders."""
    if node.type == "dir":
        return node.mode | 0o700
    if node.type == "link":
        return node.mode
    return node.mode | 0o400 | (0o100 if node.mode & 0o111 else 0)


def _generate(nodes: dict[str, Node], node: Node, hidden: Callable[[Node], None]) -> None:
    """Enroot's generated files are a topmost layer of their own, its folders 0755."""
    parent = node.path
    while parent != "/":
        parent = posixpath.dirname(parent)
        if (there := nodes.get(parent)) and there.type != "dir":
            hidden(there)
        _put(nodes, Node(parent, "dir", IMPLIED_MODE))
    _put(nodes, node)


def _put(nodes: dict[str, Node], node: Node) -> None:
    """An upper layer's entry; what lies in an earlier folder stays only in a folder."""
    earlier = nodes.get(node.path)
    if earlier and earlier.type == "dir" and node.type != "dir":
        _remove_below(nodes, node.path)
    nodes[node.path] = node


def _remove(nodes: dict[str, Node], path: str) -> None:
    removed = nodes.pop(path, None)
    if removed and removed.type == "dir":
        _remove_below(nodes, path)


def _remove_below(nodes: dict[str, Node], path: str) -> None:
    below = path.rstrip("/") + "/"
    for each in [each for each in nodes if each.startswith(below) and each != "/"]:
        del nodes[each]
