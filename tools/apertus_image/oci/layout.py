"""An OCI image layout: blobs in a folder, named by their digests (image-spec, image-layout.md)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.place.whole import write_whole

__all__ = ["INDEX_TYPES", "MANIFEST_TYPES", "Descriptor", "Layout", "field"]

MANIFEST_TYPES = ("application/vnd.oci.image.manifest.v1+json",
                  "application/vnd.docker.distribution.manifest.v2+json")
INDEX_TYPES = ("application/vnd.oci.image.index.v1+json",
               "application/vnd.docker.distribution.manifest.list.v2+json")
NAME = "org.opencontainers.image.ref.name"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LARGEST_DOCUMENT = 4 << 20  # what a registry has to take of a manifest (notes on pushing, 12)
AGAIN = "fetch the image again (tools/pull-image), or name another layout"


@dataclass(frozen=True)
class Descriptor:
    """What points at a blob.

    Attributes:
        digest: `sha256:…`.
        size: bytes.
        more: annotations, platform and what else it says.
    """

    media_type: str
    digest: str
    size: int
    more: Mapping[str, Any]

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: object) -> Descriptor:
        """From JSON.

        Raises:
            UserError: fields are missing or malformed, or the digest is not SHA-256.
        """
        try:
            more = dict(data)
            found = cls(more.pop("mediaType"), more.pop("digest"), more.pop("size"), more)
            if not (isinstance(found.media_type, str) and DIGEST.fullmatch(found.digest)
                    and isinstance(found.size, int) and found.size >= 0
                    and isinstance(more.get("annotations") or {}, dict)
                    and isinstance(more.get("platform") or {}, dict)):
                raise ValueError(data)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError("a descriptor is malformed", where=where, got=data, next_step=AGAIN,
                            expected="mediaType, digest (sha256:…) and size") from error
        return found

    def json(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size, **self.more}


class Layout:
    """A layout that is there. Blobs are added under their final names only when whole."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError: the folder is no layout of version 1."""
        self.folder = folder
        try:
            version = json.loads((folder / "oci-layout").read_bytes())["imageLayoutVersion"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError("not an OCI image layout", where=folder, got=error,
                            expected="a folder with oci-layout, index.json and blobs/") from error
        if version != "1.0.0":
            raise UserError("an OCI image layout of an unknown version", where=folder,
                            expected="1.0.0", got=version)

    @classmethod
    def create(cls, folder: Path) -> Layout:
        """An empty layout, or the one that is there."""
        (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        for name, content in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
                              ("index.json", {"schemaVersion": 2, "manifests": []})):
            if not (folder / name).exists():
                write_whole(folder / name, json.dumps(content).encode())
        return cls(folder)

    def path(self, digest: str) -> Path:
        """Where a blob lies, if it is there."""
        return self.folder / "blobs" / digest.replace(":", "/", 1)

    def blob(self, descriptor: Descriptor) -> Path:
        """A blob's file.

        Raises:
            UserError: it is missing, or of another size than its descriptor says.
        """
        file = self.path(descriptor.digest)
        try:
            size = file.stat().st_size
        except OSError as error:
            raise UserError("a blob of the layout is missing", where=file, got=error.strerror,
                            next_step=AGAIN) from error
        if size != descriptor.size:
            raise UserError("a blob of the layout has another size", where=file, got=size,
                            expected=descriptor.size, next_step=AGAIN)
        return file

    def document(self, descriptor: Descriptor) -> dict[str, Any]:
        """A manifest, index or config, its digest checked.

        Raises:
            UserError: it is missing, damaged, too large, or no JSON object.
        """
        if descriptor.size > LARGEST_DOCUMENT:
            raise UserError("a document of the layout is too large",
                            where=self.path(descriptor.digest),
                            expected=f"at most {LARGEST_DOCUMENT} bytes", got=descriptor.size)
        file = self.blob(descriptor)
        data = file.read_bytes()
        found = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if found != descriptor.digest:
            raise UserError("a blob of the layout is damaged", where=file, got=found,
                            expected=descriptor.digest, next_step=AGAIN)
        return _object(data, file)

    def descriptors(self) -> list[Descriptor]:
        """What index.json lists.

        Raises:
            UserError: it cannot be read.
        """
        file = self.folder / "index.json"
        try:
            data = _object(file.read_bytes(), file)
        except OSError as error:
            raise UserError("a layout's index cannot be read", where=file, got=error.strerror,
                            next_step=AGAIN) from error
        return [Descriptor.parse(each, file) for each in field(data, "manifests", list, file)]

    def manifest(self, wanted: str = "", architecture: str = "") -> Descriptor:
        """The descriptor of one image's manifest; indexes are looked into.

        Args:
            wanted: a digest, or a name (annotation `…ref.name`); empty where there is one only.
            architecture: OCI's name, to choose from an index of several.

        Raises:
            UserError: none fits, or several do.
        """
        found = {each.digest: each for top in self.descriptors()
                 if wanted in ("", top.digest, (top.more.get("annotations") or {}).get(NAME))
                 for each in self._images(top, architecture)}
        if len(found) == 1:
            return next(iter(found.values()))
        known = [f"{(each.more.get('annotations') or {}).get(NAME, '')} {each.digest}".strip()
                 for each in self.descriptors()]
        raise UserError(
            "the layout holds no such image" if not found else "the layout holds several images",
            where=self.folder, got=", ".join(known) or "no image at all",
            expected=" ".join(filter(None, [wanted, architecture])) or "one image",
            next_step="name one of them by its digest or name" if known else AGAIN)

    def _images(self, top: Descriptor, architecture: str) -> Iterator[Descriptor]:
        if top.media_type not in INDEX_TYPES:
            yield top
            return
        where = self.path(top.digest)
        for each in field(self.document(top), "manifests", list, where):
            child = Descriptor.parse(each, where)
            platform = child.more.get("platform") or {}
            if architecture in ("", platform.get("architecture")):
                yield from self._images(child, architecture)

    def add(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        """Store a blob; its digest and size."""
        folder = self.folder / "blobs/sha256"
        part = folder / f".{secrets.token_hex(8)}.part"
        digest, size = hashlib.sha256(), 0
        try:
            with part.open("xb") as file:
                for chunk in chunks:
                    file.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
                file.flush()
                os.fsync(file.fileno())
            part.replace(folder / digest.hexdigest())
        finally:
            part.unlink(missing_ok=True)
        return f"sha256:{digest.hexdigest()}", size

    def tag(self, descriptor: Descriptor, name: str = "") -> None:
        """Put an image into index.json, under a name, which it takes from any other image."""
        kept = [each for each in self.descriptors()
                if not (name and (each.more.get("annotations") or {}).get(NAME) == name)
                and each.digest != descriptor.digest]
        more = dict(descriptor.more)
        if name:
            more["annotations"] = {**(more.get("annotations") or {}), NAME: name}
        new = Descriptor(descriptor.media_type, descriptor.digest, descriptor.size, more)
        index = {"schemaVersion": 2, "manifests": [each.json() for each in (*kept, new)]}
        write_whole(self.folder / "index.json", json.dumps(index, indent=1).encode())


def field(document: Mapping[str, Any], name: str, kind: type, where: object) -> Any:
    """A field of a document, empty where it is missing or null.

    Raises:
        UserError: it is of another type.
    """
    value = document.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise UserError("a document of the layout has a field of the wrong type",
                        where=f"{name} of {where}", expected=kind.__name__, got=repr(value)[:200],
                        next_step=AGAIN)
    return value


def _object(data: bytes, where: Path) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(data), dict):
            json.dumps(found, ensure_ascii=False).encode()  # refuses half a surrogate pair
            return found
    raise UserError("a document of the layout is no JSON object", where=where, next_step=AGAIN)
