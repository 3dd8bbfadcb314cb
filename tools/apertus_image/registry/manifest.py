"""An image's manifest, in OCI's form and in Docker's: bytes, exact and the same everywhere.

Sources: image-spec, manifest.md; distribution's docs, spec/manifest-v2-2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from apertus_image.errors import UserError
from apertus_image.oci import gojson
from apertus_image.oci.layout import MANIFEST_TYPES
from apertus_image.registry.blobs import Blob

__all__ = ["FORMATS", "Format", "Manifest", "make", "parse"]

@dataclass(frozen=True)
class Format:
    """Media types of a kind of manifest.

    Attributes:
        layers: by a layer's encoding (`tar`, `gzip`, `zstd`); what is missing has no type.
    """

    manifest: str
    config: str
    layers: dict[str, str]


# Docker has never had a type for zstd; the one for plain tar is distribution's own
# (manifest/schema2), and skopeo's.
FORMATS = {
    "oci": Format(
        MANIFEST_TYPES[0], "application/vnd.oci.image.config.v1+json",
        {"tar": "application/vnd.oci.image.layer.v1.tar",
         "gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
         "zstd": "application/vnd.oci.image.layer.v1.tar+zstd"}),
    "v2s2": Format(
        MANIFEST_TYPES[1], "application/vnd.docker.container.image.v1+json",
        {"tar": "application/vnd.docker.image.rootfs.diff.tar",
         "gzip": "application/vnd.docker.image.rootfs.diff.tar.gzip"}),
}


@dataclass(frozen=True)
class Manifest:
    """A manifest as it goes to a registry.

    Attributes:
        data: its bytes, of which the digest is made.
        media_type: the same as `mediaType` in it, if it says one.
    """

    data: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.data).hexdigest()}"

    def descriptor(self) -> dict[str, Any]:
        """What points at it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.data)}

    def blobs(self) -> list[dict[str, Any]]:
        """Descriptors of the config and the layers."""
        fields = json.loads(self.data)
        return [fields["config"], *fields["layers"]]


def make(form: str, config: Blob, layers: Iterable[tuple[Blob, str]]) -> Manifest:
    """The manifest of an image.

    Args:
        form: `oci` or `v2s2`.
        layers: each with its encoding, lowest first.

    Raises:
        UserError: the form has no media type for an encoding (case 27).
    """
    types = FORMATS[form]

    def descriptors() -> Iterator[dict[str, Any]]:
        for blob, kind in layers:
            if kind not in types.layers:
                raise UserError(f"a {form} manifest cannot name a layer compressed with {kind}",
                                expected=" or ".join(types.layers), got=kind,
                                next_step="--format oci, or --compression none")
            yield {"mediaType": types.layers[kind], "size": blob.size, "digest": blob.digest}

    fields = {"schemaVersion": 2, "mediaType": types.manifest,
              "config": {"mediaType": types.config, "size": config.size, "digest": config.digest},
              "layers": list(descriptors())}
    return Manifest(gojson.compact(fields).encode(), types.manifest)


def parse(data: bytes, media_type: str, where: object) -> Manifest:
    """A manifest from elsewhere, its bytes kept.

    Raises:
        UserError: it is no manifest of an image, or says another type than it is sent with.
    """
    try:
        fields = json.loads(data)
        said = fields.get("mediaType", media_type)
        descriptors = [fields["config"], *fields["layers"]]
        for each in descriptors:
            if not (isinstance(each["digest"], str) and isinstance(each["size"], int)
                    and isinstance(each["mediaType"], str)):
                raise ValueError(each)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError("not the manifest of an image", where=where, got=media_type,
                        expected=" or ".join(MANIFEST_TYPES)) from error
    if said != media_type:
        raise UserError("a manifest says another type than it is sent with", where=where,
                        expected=media_type, got=said)
    return Manifest(data, media_type)
