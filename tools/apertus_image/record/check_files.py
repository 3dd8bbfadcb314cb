"""Whether the files of a release say the same of each other as they did when they were written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.record import pins, provenance, sbom, sign
from apertus_image.record.attestation import Attestation
from apertus_image.record.beside import Beside
from apertus_image.record.inventory import inventory
from apertus_image.record.record import Record, identity
from apertus_image.record.report import Report
from apertus_image.record.verdict import Verdict

__all__ = ["check_made", "check_record", "check_signature"]


def check_record(report: Report, files: Beside) -> Record | None:
    """The record: its form, what in it follows from the rest, and every file that names it.

    The digest of a record is in its attestation, provenance and verdicts: a change that leaves its
    form in order is found by them. Where none is there, only what can be recomputed is.

    Raises:
        UserError: it cannot be read.
    """
    data = _bytes(files.record)
    record = report.attempt("record: schema and form", lambda: Record.parse(data, files.record),
                            where=files.record)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if not _named(report, files, digest):
        report.unchecked("record: digest", f"{digest}; no file beside it names it")
    if record is None:
        return None
    fields, where = record.data, files.record
    image, squashfs, pinned = fields["image"], fields["squashfs"], fields["pins"]
    report.compare("record: identity", identity(image["config"], squashfs["sha256"]),
                   fields["identity"], where)
    report.compare("record: digest over all pins", pins.over_all(
        {pins.FLAKE_LOCK: pinned["flake_lock"], **pinned["files"]}), pinned["all"], where)
    report.compare("record: name of the SquashFS", f"{record.name}.sqsh", squashfs["file"], where)
    report.compare("record: its own name", f"{record.name}.record.json", where.name, where)
    if files.provenance.is_file() and (statement := _json(report, "provenance", files.provenance)):
        report.compare("provenance: subjects", provenance.subjects(record),
                       statement.get("subject"), files.provenance)
    if files.sbom.is_file() and (bom := _json(report, "SBOM", files.sbom)):
        component = (bom.get("metadata") or {}).get("component") or {}
        report.compare("SBOM: its image", image["config"], component.get("bom-ref"), files.sbom)
    return record


def _named(report: Report, files: Beside, digest: str) -> int:
    """How many files name the record; each is compared."""
    count = 0
    for file in [files.attestation, *sorted(files.verdicts.glob("*.json"))]:
        kind = Attestation if file == files.attestation else Verdict
        what = "attestation" if kind is Attestation else f"verdict {file.stem}"
        if not file.is_file():
            continue
        found = report.attempt(f"{what}: schema and form",
                               lambda kind=kind, file=file: kind.parse(_bytes(file), file),
                               where=file)
        if found:
            why = f"the probe says {found.data['verdict']}" if kind is Verdict else ""
            report.compare(f"record: digest, as the {what} has it", found.data["record"], digest,
                           files.record, why)
            count += 1
    if files.provenance.is_file() and (statement := _json(report, "provenance", files.provenance)):
        named = _named_by_provenance(statement)
        report.compare("record: digest, as the provenance has it", named, digest, files.record)
        count += 1
    return count


def _named_by_provenance(statement: dict[str, Any]) -> str:
    try:
        return f"sha256:{statement['predicate']['runDetails']['byproducts'][0]['digest']['sha256']}"
    except (KeyError, IndexError, TypeError):
        return "none: it is no provenance of this project's"


def check_made(report: Report, files: Beside, record: Record, project: Path, image: Image,
               physical: Callable[[str], Path]) -> None:
    """SBOM and provenance, made again from the clone and the image; nobody keeps their digests."""
    there = [file for file in (files.sbom, files.provenance) if file.is_file()]
    if not there:
        return
    try:
        here = pins.over_all(pins.digests(project))
        if here != record.data["pins"]["all"]:
            raise UserError("this clone has other pins than the record")
        parts = inventory(image, project, physical)
        made = {files.sbom: sbom.compose(image, parts),
                files.provenance: provenance.compose(
                    record, (project / pins.FLAKE_LOCK).read_bytes(), parts)}
    except UserError as error:
        for file in there:
            report.unchecked(f"{file.name}: made again", error.what)
        return
    for file in there:
        report.compare(f"{file.name}: made again", _digest(made[file]), _digest(_bytes(file)), file)


def check_signature(report: Report, files: Beside, signers: Path | None) -> None:
    """The record's signature, where there is one."""
    if not files.signature.is_file():
        if signers:
            report.compare("signature", "one beside the record", "none", files.signature)
        return
    data, signature = _bytes(files.record), _bytes(files.signature)
    if signers:
        report.attempt("signature, by an allowed signer",
                       lambda: sign.verify(data, signature, signers, files.signature))
        return
    key = report.attempt("signature", lambda: sign.key_of(data, signature, files.signature),
                         tell=False)
    if key:
        report.unchecked("signature", f"good, by the key {key}; whose that is needs --signers")


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError("a file of the release cannot be read", where=file, got=error.strerror,
                        next_step="take it from where the release was published") from error


def _json(report: Report, what: str, file: Path) -> dict[str, Any]:
    """An object; empty, and noted, where it is none."""
    try:
        data = json.loads(_bytes(file))
    except (ValueError, RecursionError) as error:
        data = error
    if isinstance(data, dict) and data:
        return data
    report.compare(f"{what}: form", "a JSON object", data, file)
    return {}
