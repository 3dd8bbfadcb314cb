"""The images that a command can be given, by how they are named."""

from __future__ import annotations

import re
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.oci.layout import Layout
from apertus_image.squashfs.source import LayoutImage, Source, StoredImage
from apertus_image.store.store import Store

__all__ = ["found", "located"]

IN_LAYOUT = re.compile(r"(?P<folder>.+?)(?:@(?P<digest>sha256:[0-9a-f]{64})|:(?P<name>[^/:@]+))?")


def located(image: str, store: Store) -> Image | tuple[Layout, str]:
    """An image JSON, or a layout with the name or digest of one of its images, if one is given.

    Args:
        image: a path; of a layout's folder also `FOLDER:NAME` or `FOLDER@sha256:…`.
        store: where the layers of an image JSON lie.

    Raises:
        UserError: it is neither.
    """
    parts = IN_LAYOUT.fullmatch(image)
    for folder, wanted in ((image, ""),
                           (parts["folder"], parts["digest"] or parts["name"] or "")):
        if Path(folder).is_dir():
            return Layout(Path(folder)), wanted
    file = Path(image)
    if not file.exists() and file.is_symlink():  # a result, of a store below a directory
        file = file.readlink()
    if not file.exists() and file.is_relative_to("/nix/store"):
        file = store.physical(str(file))
    if not file.exists():
        raise UserError("no such image", where=image,
                        expected="an image JSON, or the folder of an OCI image layout",
                        next_step="tools/build makes result")
    return Image.load(file)


def found(image: str, store: Store, architecture: str = "") -> Source:
    """An image to export, named as for `located`.

    Args:
        architecture: OCI's name, to choose from an index of a layout.

    Raises:
        UserError: it is none.
    """
    at = located(image, store)
    if isinstance(at, Image):
        return StoredImage(at, store.physical)
    return LayoutImage(*at, architecture)
