"""What proves that the bytes read back are the image's own: its digests.

A file of a layer in the store has no digest of its own; the layer has, of its tar. So the bytes
read back are put into the layers' tars again, in place of the store's, and each tar must have
its layer's digest. Both come in one order, depth first. A file whose own digest is known (of a
layer that had to be read before, or generated) is compared with that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from apertus_image.errors import UserError
from apertus_image.oci import tar
from apertus_image.oci.merge import Entry
from apertus_image.squashfs.content import contents, sha256_of
from apertus_image.squashfs.node import Node, Piece

__all__ = ["Proof", "StoredLayer", "differs"]

REPAIR = "nix-store --verify --check-contents, then tools/build and export again"


class StoredLayer(NamedTuple):
    """A layer whose bytes lie in the store.

    Attributes:
        digest: `sha256:…` of its tar.
        entries: in the tar's order.
    """

    digest: str
    entries: Sequence[Entry]


class Proof:
    """Takes the bytes of every file, in order, and says in the end what is not proven.

    Args:
        nodes: the tree that was written.
        layers: those of the image that lie in the store.
    """

    def __init__(self, nodes: Mapping[str, Node], layers: Sequence[StoredLayer] = ()) -> None:
        self._tars = [_Tar(layer) for layer in layers]
        # The layer that a file is from: a lower one's of the same path is hidden.
        self._tar_of = {
            entry.name: self._tars[number] for number, layer in enumerate(layers)
            for entry in layer.entries
            if entry.type == "file" and entry.size
            and _file_of(nodes.get(entry.name)) == entry.source}
        self._digest = hashlib.sha256()
        self._differing: list[UserError] = []

    def begin(self, node: Node) -> Callable[[bytes], None]:
        """What is to be told a file's bytes."""
        if found := self._tar_of.get(node.path):
            return found.begin(node.path)
        self._digest = hashlib.sha256()
        return self._digest.update

    def end(self, node: Node) -> None:
        """The file's bytes have all been told."""
        if found := self._tar_of.get(node.path):
            found.end(node.size)
        elif (got := self._digest.hexdigest()) != (wanted := sha256_of(node)):
            self._differing.append(differs(node.path, wanted, got))

    def differing_files(self) -> list[UserError]:
        """Files with a digest of their own that do not have it."""
        return self._differing

    def differing_layers(self) -> list[UserError]:
        """Layers that do not come out with their digest."""
        results = [(each.layer.digest, each.finish()) for each in self._tars]
        return [UserError("the bytes of a layer differ", where=f"layer {wanted}",
                          expected=wanted, got=got, next_step=REPAIR)
                for wanted, got in results if got != wanted]


def differs(path: str, wanted: str, got: str) -> UserError:
    """The error for a file with other bytes than it should have."""
    return UserError("a file's bytes differ", where=path, expected=f"sha256:{wanted}",
                     got=f"sha256:{got}")


class _Tar:
    """The tar of a layer, made of its headers and of what is handed in."""

    def __init__(self, layer: StoredLayer) -> None:
        self.layer = layer
        self._left: Iterator[Entry] = iter(layer.entries)
        self._digest = hashlib.sha256()

    def begin(self, path: str) -> Callable[[bytes], None]:
        for entry in self._left:
            self._digest.update(tar.header(entry))
            if entry.name == path:
                return self._digest.update
            self._from_source(entry)
        raise UserError("the written file's order is not the tree's", where=path)

    def end(self, size: int) -> None:
        self._digest.update(tar.padding(size))

    def finish(self) -> str:
        for entry in self._left:
            self._digest.update(tar.header(entry))
            self._from_source(entry)
        self._digest.update(tar.END)
        return f"sha256:{self._digest.hexdigest()}"

    def _from_source(self, entry: Entry) -> None:
        """What the export does not have of this layer: files that an upper layer hides."""
        if entry.type == "file":
            for data in contents(Piece(entry.size, entry.source)):
                self._digest.update(data)
            self._digest.update(tar.padding(entry.size))


def _file_of(node: Node | None) -> str:
    return node.pieces[0].file if node and node.pieces else ""
