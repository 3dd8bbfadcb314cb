"""A layer: the tar stream over its store paths, and its digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.oci import tar
from apertus_image.oci.ahead import ahead
from apertus_image.oci.merge import Entry, merged
from apertus_image.oci.paths import LayerPath

__all__ = ["MEDIA_TYPE", "Layer", "canonical_history", "digest", "stream"]

MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar"
HISTORY_FIELDS = ("created", "created_by", "author", "comment", "empty_layer")  # in Go's order
CHUNK = 1 << 20


def canonical_history(data: Mapping[str, Any]) -> dict[str, Any]:
    """An OCI history entry as Go writes it: its fields in order, none that is empty.

    Raises:
        UserError: fields that a history entry does not have.
    """
    if unknown := set(data) - set(HISTORY_FIELDS):
        raise UserError("unknown fields in a layer's metadata", got=", ".join(sorted(unknown)),
                        expected=", ".join(HISTORY_FIELDS))
    return {key: data[key] for key in HISTORY_FIELDS if data.get(key)}


@dataclass(frozen=True)
class Layer:
    """One layer of an image JSON.

    Attributes:
        digest: `sha256:…` of the uncompressed tar, which is its diff id too.
        size: bytes of the tar.
        paths: the store paths it is made of.
        history: OCI history entry.
    """

    digest: str
    size: int
    paths: tuple[LayerPath, ...]
    history: dict[str, Any]

    def json(self) -> dict[str, Any]:
        """nix2container's form, its fields in its order."""
        fields: dict[str, Any] = {"digest": self.digest, "size": self.size,
                                  "diff_ids": self.digest}
        if self.paths:
            fields["paths"] = [path.json() for path in self.paths]
        return fields | {"mediatype": MEDIA_TYPE, "History": self.history}

    @classmethod
    def parse(cls, data: dict[str, Any]) -> Layer:
        """From nix2container's form."""
        paths = tuple(LayerPath.parse(path) for path in data.get("paths") or [])
        return cls(data["digest"], data["size"], paths, data.get("History") or {})


def stream(paths: Iterable[LayerPath],
           physical: Callable[[str], Path] = Path) -> Iterator[bytes]:
    """The layer's tar, in chunks of about a MiB; memory does not grow with its size.

    Args:
        physical: where a store path lies on this machine.

    Raises:
        UserError: sources conflict, a file cannot be read, or it changed while it was read.
    """
    pending: list[bytes] = []
    length = 0
    for entry in merged(paths, physical):
        pending.append(tar.header(entry))
        length += len(pending[-1])
        if entry.type == "file" and entry.size:
            for data in _contents(entry):
                pending.append(data)
                length += len(data)
                if length >= CHUNK:
                    yield b"".join(pending)
                    pending, length = [], 0
            pending.append(tar.padding(entry.size))
    pending.append(tar.END)
    yield b"".join(pending)


def _contents(entry: Entry) -> Iterator[bytes]:
    left = entry.size
    try:
        file = os.open(entry.source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while left:
                data = os.read(file, min(CHUNK, left))
                if not data:
                    raise UserError(
                        "a file became shorter while it was read", where=entry.source,
                        expected=f"{entry.size} bytes", got=f"{entry.size - left} bytes",
                        next_step="nix-store --verify --check-contents, then tools/build")
                left -= len(data)
                yield data
        finally:
            os.close(file)
    except OSError as error:
        raise UserError("a file of the image cannot be read", where=entry.source, got=error,
                        next_step="nix-store --verify --check-contents, then tools/build",
                        ) from error


def digest(paths: Iterable[LayerPath],
           physical: Callable[[str], Path] = Path) -> tuple[str, int]:
    """Digest and size of a layer's tar; one thread reads while another hashes."""
    found, size = hashlib.sha256(), 0
    for chunk in ahead(stream(paths, physical)):
        found.update(chunk)
        size += len(chunk)
    return f"sha256:{found.hexdigest()}", size
