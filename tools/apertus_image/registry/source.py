"""An image that can be pushed: from its JSON and the store, or from an OCI layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from apertus_image.oci.compression import compression
from apertus_image.oci.image import Image
from apertus_image.oci.layout import Descriptor, Layout
from apertus_image.registry import manifest
from apertus_image.registry.blobs import Blob, from_bytes, from_file, from_layer
from apertus_image.registry.manifest import FORMATS, Manifest

__all__ = ["Source", "from_image", "from_layout"]


@dataclass(frozen=True)
class Source:
    """What there is to push.

    Attributes:
        config: its digest is the image ID.
        layers: each with its encoding, lowest first.
        original: the manifest it came with, whose bytes are kept (case 26).
    """

    config: Blob
    layers: tuple[tuple[Blob, str], ...]
    original: Manifest | None = None

    def manifest(self, form: str) -> Manifest:
        """The manifest in a form: the original where that is of this form.

        Raises:
            UserError: a layer's encoding has no media type in it.
        """
        if self.original and self.original.media_type == FORMATS[form].manifest:
            return self.original
        return manifest.make(form, self.config, self.layers)

    def blobs(self) -> list[Blob]:
        """Every blob once, the largest first, so that none begins last and lasts longest."""
        distinct = {blob.digest: blob for blob in (*(b for b, _ in self.layers), self.config)}
        return sorted(distinct.values(), key=lambda blob: -blob.size)


def from_image(image: Image, physical: Callable[[str], Path] = Path) -> Source:
    """An image of the store; its layers are made while they are sent.

    Args:
        physical: where a store path lies on this machine.
    """
    layers = tuple((from_layer(layer, physical), "tar") for layer in image.layers)
    return Source(from_bytes(image.config_blob()), layers)


def from_layout(layout: Layout, wanted: str = "") -> Source:
    """An image of a layout.

    Args:
        wanted: its name or digest, where the layout holds several.

    Raises:
        UserError: a blob is missing, or is not what its descriptor says (case 27).
    """
    found = layout.manifest(wanted)
    layout.document(found)  # its digest
    original = manifest.parse(layout.path(found.digest).read_bytes(), found.media_type,
                              layout.path(found.digest))
    config, *layers = (Descriptor.parse(each, layout.path(found.digest))
                       for each in original.blobs())
    return Source(_blob(layout, config),
                  tuple((_blob(layout, each), _encoding(layout, each)) for each in layers),
                  original)


def _blob(layout: Layout, descriptor: Descriptor) -> Blob:
    return from_file(layout.blob(descriptor), descriptor.digest, descriptor.size)


def _encoding(layout: Layout, descriptor: Descriptor) -> str:
    return compression(layout.blob(descriptor), descriptor.media_type) or "tar"
