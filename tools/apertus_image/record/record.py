"""The identity record: which content a commit is, without a word that two makers could differ in.

No clock, host, user, path or tool's version is in it, so everybody who releases one commit gets
the same bytes. It is immutable: what comes later is a file of its own that names its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from apertus_image.errors import UserError, raise_all
from apertus_image.image.identity import CONTENT_ID
from apertus_image.oci.image import Image
from apertus_image.record.document import Document
from apertus_image.record.pins import FLAKE_LOCK, over_all
from apertus_image.record.source import SourceState

__all__ = ["MEDIA_TYPE", "Record", "compose", "content_id", "identity", "name"]

MEDIA_TYPE = "application/vnd.apertus-image.record.v1+json"
TITLE = "org.opencontainers.image.title"
VERSION = "org.opencontainers.image.version"
NEEDED = ("image", "layers", "architecture", "settings", "format", "size", "sha256")


@dataclass(frozen=True)
class Record(Document):
    """A record; its fields are in docs/record.md and schemas/record-1.json."""

    kind: ClassVar[str] = "record"

    @property
    def name(self) -> str:
        return name(self)


def compose(
    *, source: SourceState, pins: Mapping[str, str], image: Image, manifests: Mapping[str, str],
    export: Mapping[str, Any], application: Mapping[str, Any] | None,
    physical: Callable[[str], Path] = Path,
) -> Record:
    """The record of one release.

    Args:
        source: the project's checkout.
        pins: path -> `sha256:…`, flake.lock among them (record.pins.digests).
        manifests: `oci`, and `v2s2` where there is one -> digest.
        export: what lies beside the `.sqsh` (apertus-image/export/1).
        application: commit, dirty, submodules, path, layer of the user's own code, or None.
        physical: where a store path lies on this machine, for the content's own identity.

    Raises:
        UserError: the export is not of this image, or a part is missing or malformed; all
            faults are named.
    """
    raise_all(_disagreements(image, export, pins, application),
              "no record can be made: {n} faults")
    labels = image.config.get("Labels") or {}
    sha256 = f"sha256:{export['sha256']}"
    data = {
        "source": {"commit": source.commit, "dirty": source.dirty,
                   "submodules": dict(source.submodules)},
        "application": None if application is None else dict(application),
        "pins": {"flake_lock": pins[FLAKE_LOCK], "all": over_all(pins),
                 "files": {path: digest for path, digest in pins.items() if path != FLAKE_LOCK}},
        "image": {
            "name": labels.get(TITLE, "image"), "version": labels.get(VERSION, "0"),
            "architecture": image.architecture, "config": image.image_id,
            "content_id": content_id(image, physical),
            "layers": [{"digest": each.digest, "size": each.size} for each in image.layers],
            "manifests": dict(manifests)},
        "identity": identity(image.image_id, sha256),
    }
    # Not the name that the maker chose for the export, which could be another's.
    file = f"{_name(data)}.sqsh"
    return Record.of(data | {"squashfs": {
        "file": file, "size": export["size"], "sha256": sha256, "format": export["format"],
        "settings": dict(export["settings"])}})


def identity(image_id: str, sha256: str) -> str:
    """Over both forms of the content: the SHA-256 of the image ID and the SquashFS's, a line each.

    The image ID fixes every layer, so two releases of one identity are the same bits whatever
    their commits (trap 16).

    Args:
        image_id, sha256: `sha256:…`.
    """
    lines = f"{image_id}\n{sha256}\n"
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def name(record: Record) -> str:
    """NAME-VERSION-COMMIT12-IDENTITY12, `-dirty` behind it where the source was."""
    return _name(record.data)


def content_id(image: Image, physical: Callable[[str], Path] = Path) -> str | None:
    """The identity that the image holds itself; None where no layer does, as in a test's.

    Raises:
        UserError: a store path of the image is gone.
    """
    for layer in reversed(image.layers):
        for path in layer.paths:
            folder = physical(path.path)
            if not folder.exists():
                raise UserError("a store path of the image is gone", where=path.path,
                                next_step="tools/build brings it back")
            if (folder / CONTENT_ID).is_file():
                return (folder / CONTENT_ID).read_text().strip()
    return None


def _name(data: Mapping[str, Any]) -> str:
    image, application = data["image"], data["application"] or {}
    parts = [image["name"], image["version"], data["source"]["commit"][:12],
             data["identity"].removeprefix("sha256:")[:12]]
    dirty = data["source"]["dirty"] or application.get("dirty")
    return "-".join(re.sub(r"[^0-9A-Za-z.+_-]", "_", part) for part in parts) + (
        "-dirty" if dirty else "")


def _disagreements(image: Image, export: Mapping[str, Any], pins: Mapping[str, str],
                   application: Mapping[str, Any] | None) -> list[UserError]:
    found = []
    if missing := [key for key in NEEDED if key not in export]:
        found.append(UserError("an export's record lacks fields", got=", ".join(missing),
                               expected=", ".join(NEEDED), next_step="tools/export-sqsh"))
    layers = [layer.digest for layer in image.layers]
    for what, wanted in (("image", image.image_id), ("architecture", image.architecture),
                         ("layers", layers)):
        if what in export and export[what] != wanted:
            found.append(UserError("the export is of another image", where=what, expected=wanted,
                                   got=export[what], next_step="tools/export-sqsh"))
    if FLAKE_LOCK not in pins:
        found.append(UserError("the pins lack flake.lock", got=", ".join(pins)))
    if application is not None and application.get("layer") not in layers:
        found.append(UserError("the application's layer is not in the image",
                               got=application.get("layer"), expected=", ".join(layers)))
    return found
