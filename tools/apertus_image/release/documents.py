"""The documents of a release: what stands beside the artefact under its name (docs/record.md)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.place.whole import write_whole
from apertus_image.record import attestation, provenance, sbom, verdict
from apertus_image.record import record as records
from apertus_image.record.inventory import inventory
from apertus_image.record.pins import FLAKE_LOCK, digests
from apertus_image.record.sign import key_of, sign
from apertus_image.release.gate import GateResult
from apertus_image.release.source import ApplicationSource
from apertus_image.release.state import Folder
from apertus_image.store.store import Store

__all__ = ["RECORD", "SIGNATURE", "Documents", "is_makers", "signer"]

RECORD, ATTESTATION = ".record.json", ".attestation.json"
SIGNATURE = f"{RECORD}.sig"


def is_makers(name: str) -> bool:
    """Whether two who release one commit have different documents of this kind."""
    return name.endswith((SIGNATURE, ATTESTATION))


def signer(record: Path, signature: Path) -> str:
    """The fingerprint of the key that signed a record.

    Raises:
        UserError: the signature is not of these bytes.
    """
    return key_of(record.read_bytes(), signature.read_bytes(), signature)


class Documents:
    """Writes them into a release's folder.

    Args:
        project: root of the clone.
    """

    def __init__(self, project: Path, store: Store, folder: Folder) -> None:
        self._project, self._store, self._folder = project, store, folder

    def write(
        self, *, gate: GateResult, application: ApplicationSource | None, image: Image,
        results: dict[str, dict[str, Any]], maker: str, key: Path | None = None,
    ) -> dict[str, Any]:
        """Compose and write what is not there yet.

        Args:
            key: an SSH key that signs the record.

        Returns:
            `name` of the release, `record`, its digest, `documents`: file -> SHA-256, and
            `types`: those that are attached to the image -> their media types.

        Raises:
            UserError: a record of this name is there and says something else.
        """
        export = results["export"]["record"]
        record = records.compose(
            source=gate.project, pins=digests(self._project), image=image,
            manifests=results["push"]["manifests"], export=export,
            application=self._application(gate, application, image),
            physical=self._store.physical)
        parts = inventory(image, self._project, self._store.physical)
        name = record.name
        lock = (self._project / FLAKE_LOCK).read_bytes()
        fixed = {
            f"{name}{RECORD}": record.bytes,
            f"{name}.sbom.cdx.json": sbom.compose(image, parts),
            f"{name}.provenance.json": provenance.compose(record, lock, parts),
            f"{name}.sqsh.sha256": f"{export['sha256']}  {name}.sqsh\n".encode(),
            f"{name}.verdicts/lint.json": verdict.compose(
                record, "lint", True, {"checked": results["check"]["lint"]}).bytes,
            f"{name}.verdicts/export-read-back.json": verdict.compose(
                record, "export-read-back", True,
                {"check": export["check"], "sha256": results["check"]["sha256"]}).bytes,
        }
        for file, data in fixed.items():
            self._put(file, data)
        own = f"{name}{ATTESTATION}"
        if not (self._folder.files / own).exists():
            write_whole(self._folder.files / own, self._attestation(record, maker, export["check"]))
        names = [*fixed, own]
        if key:
            names.append(f"{name}{SIGNATURE}")
            write_whole(self._folder.files / names[-1], sign(record.bytes, key))
        return {
            "name": name, "record": record.digest,
            "documents": {each: _sha256(self._folder.files / each) for each in names},
            "types": {names[0]: records.MEDIA_TYPE, names[1]: sbom.MEDIA_TYPE,
                      names[2]: provenance.MEDIA_TYPE},
        }

    def _application(self, gate: GateResult, application: ApplicationSource | None, image: Image
                     ) -> dict[str, Any] | None:
        if application is None:
            return None
        return {"commit": application.commit, "dirty": gate.sources[0].dirty,
                "submodules": dict(application.submodules), "path": application.at,
                "layer": image.layers[-1].digest}

    def _attestation(self, record: records.Record, maker: str, check: str) -> bytes:
        begun = [done.times["started"] for step in ("prefetch", "build", "push", "export")
                 if (done := self._folder.read(step))]
        now = datetime.now(UTC)
        started = datetime.fromtimestamp(min(begun), UTC) if begun else now
        return attestation.compose(record, maker=maker, check=check, started=started,
                                   finished=now).bytes

    def _put(self, name: str, data: bytes) -> None:
        file = self._folder.files / name
        if file.exists():
            if file.read_bytes() == data:
                return
            raise UserError("a document of this release is there and says something else",
                            where=file, expected=f"sha256:{hashlib.sha256(data).hexdigest()}",
                            got=f"sha256:{_sha256(file)}",
                            next_step="compare them; remove it if it was changed by hand")
        file.parent.mkdir(exist_ok=True)
        write_whole(file, data)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
