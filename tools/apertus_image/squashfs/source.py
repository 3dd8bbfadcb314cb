"""Where an export's image comes from: the store, or an OCI image layout."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from apertus_image.errors import UserError, raise_all
from apertus_image.oci.ahead import ahead
from apertus_image.oci.compression import compression, decompressed
from apertus_image.oci.image import Image, wrong_types
from apertus_image.oci.layout import Descriptor, Layout, field
from apertus_image.oci.merge import Entry, merged
from apertus_image.squashfs.node import Node, Piece
from apertus_image.squashfs.proof import StoredLayer
from apertus_image.squashfs.tree import LayerTree
from apertus_image.squashfs.untar import untar

__all__ = ["LayoutImage", "Source", "StoredImage"]


class Source(Protocol):
    """An image that can be exported.

    Attributes:
        config: the OCI config's `config` object.
        image_id: `sha256:…` of the config blob.
        architecture: OCI's name.
        layers: digests of the layers' tars (diff ids), lowest first.
    """

    config: Mapping[str, Any]
    image_id: str
    architecture: str
    layers: list[str]

    def read(self, scratch: Path) -> tuple[list[LayerTree], list[StoredLayer]]:
        """(every layer's tree, lowest first; those layers whose digests are still to prove).

        Args:
            scratch: a folder for what has to be decompressed; it stays until the check.
        """

    def layer(self, number: int, scratch: Path) -> LayerTree:
        """One layer's tree alone, counted from the lowest; arguments as for `read`."""


class StoredImage:
    """An image whose layers lie in the store.

    Args:
        image: from its image JSON.
        physical: where a store path lies on this machine (trap 11).
    """

    def __init__(self, image: Image, physical: Callable[[str], Path] = Path) -> None:
        self._image, self._physical = image, physical
        self.config, self.image_id = image.config, image.image_id
        self.architecture = image.architecture
        self.layers = [layer.digest for layer in image.layers]

    def read(self, scratch: Path) -> tuple[list[LayerTree], list[StoredLayer]]:
        """Nothing is decompressed: the files are where they are."""
        stored = [StoredLayer(layer.digest, tuple(merged(layer.paths, self._physical)))
                  for layer in self._image.layers]
        return [LayerTree({entry.name: _node(entry) for entry in layer.entries})
                for layer in stored], stored

    def layer(self, number: int, scratch: Path) -> LayerTree:
        """One layer's tree alone."""
        paths = self._image.layers[number].paths
        return LayerTree({entry.name: _node(entry) for entry in merged(paths, self._physical)})


def _node(entry: Entry) -> Node:
    pieces = (Piece(entry.size, entry.source),) if entry.size else ()
    return Node(entry.name, entry.type, entry.mode, entry.size, entry.target, pieces)


class LayoutImage:
    """An image of an OCI image layout.

    Attributes:
        sizes: bytes of the layers' blobs, lowest first.
        history: entries of the config's history that made a layer.

    Args:
        wanted: a digest, or a name; empty where there is one image only.
        architecture: OCI's name, to choose from an index of several.

    Raises:
        UserError: there is no such image, or its documents are damaged.
    """

    def __init__(self, layout: Layout, wanted: str = "", architecture: str = "") -> None:
        self._layout = layout
        top = layout.manifest(wanted, architecture)
        where = layout.path(top.digest)
        manifest = layout.document(top)
        descriptor = Descriptor.parse(manifest.get("config"), where)
        document = layout.document(descriptor)
        blob = layout.path(descriptor.digest)
        self.config: Mapping[str, Any] = field(document, "config", dict, blob)
        raise_all(wrong_types(self.config, blob), "{n} fields of the image's config are wrong")
        self.image_id = descriptor.digest
        self.architecture = field(document, "architecture", str, blob)
        self.layers = field(field(document, "rootfs", dict, blob), "diff_ids", list, blob)
        self._descriptors = [Descriptor.parse(each, where)
                             for each in field(manifest, "layers", list, where)]
        self.sizes = [each.size for each in self._descriptors]
        self.history = [each for each in field(document, "history", list, blob)
                        if isinstance(each, dict) and not each.get("empty_layer")]
        if len(self.layers) != len(self._descriptors):
            raise UserError("an image's manifest and config count its layers differently",
                            where=where, expected=f"{len(self.layers)}, by the config",
                            got=f"{len(self._descriptors)}", next_step="build the image again")

    def read(self, scratch: Path) -> tuple[list[LayerTree], list[StoredLayer]]:
        """Every blob is read and compared with its digest; only compressed ones are written out."""
        return [self.layer(number, scratch) for number in range(len(self.layers))], []

    def layer(self, number: int, scratch: Path) -> LayerTree:
        """One layer's tree alone."""
        return self._tree(self._descriptors[number], self.layers[number],
                          scratch / f"{number}.tar")

    def _tree(self, descriptor: Descriptor, diff_id: str, plain: Path) -> LayerTree:
        blob = self._layout.blob(descriptor)
        kind = compression(blob, descriptor.media_type)
        digest = hashlib.sha256()
        try:
            with plain.open("wb") if kind else contextlib.nullcontext() as out:
                for chunk in ahead(decompressed(blob, kind, descriptor.digest)):
                    digest.update(chunk)
                    if out:
                        out.write(chunk)
        except OSError as error:
            raise UserError("a layer cannot be decompressed beside the export",
                            where=error.filename or plain.parent, got=error.strerror,
                            next_step="make room, or choose another folder with -o") from error
        if (found := f"sha256:{digest.hexdigest()}") != diff_id:
            raise UserError("a layer is not the one that the image's config names", where=blob,
                            expected=diff_id, got=found, next_step="build the image again")
        return untar(plain if kind else blob, f"layer {descriptor.digest}")
