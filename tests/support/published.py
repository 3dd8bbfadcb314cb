"""A released SquashFS of the image of case 47, with all the files beside it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from apertus_image.record import attestation, provenance, sbom, sign, verdict
from apertus_image.record.beside import Beside
from apertus_image.record.inventory import inventory
from apertus_image.record.record import Record
from apertus_image.record.report import DIFFERS, Item, Report
from apertus_image.squashfs.export import Exported
from support.releases import Release

SHA256 = "SquashFS: SHA-256"  # an item of a report


@dataclass
class Published:
    """A folder with a release.

    Attributes:
        signers: who may sign; None without ssh-keygen.
    """

    files: Beside
    record: Record
    signers: Path | None


def publish(release: Release, exported: Exported, folder: Path) -> Published:
    """Write every file that a release has."""
    record = release.record(export=exported.record)
    files = Beside(folder / record.name)
    folder.mkdir()
    shutil.copyfile(exported.path, files.sqsh)
    files.checksum.write_text(f"{exported.record['sha256']}  {files.sqsh.name}\n")
    parts = inventory(release.image, release.project)
    lock = (release.project / "flake.lock").read_bytes()
    now = datetime.now(UTC)
    for file, data in (
        (files.record, record.bytes), (files.sbom, sbom.compose(release.image, parts)),
        (files.provenance, provenance.compose(record, lock, parts)),
        (files.attestation, attestation.compose(record, maker="emitter", check="full", started=now,
                                                finished=now).bytes),
        (files.verdicts / "probe.json", verdict.compose(record, "probe", False).bytes),
    ):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
    return Published(files, record, _signed(files, folder.with_name("key")))


def _signed(files: Beside, key: Path) -> Path | None:
    if not shutil.which("ssh-keygen"):
        return None
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    files.signature.write_bytes(sign.sign(files.record.read_bytes(), key))
    signers = key.with_name("signers")
    signers.write_text(f'me namespaces="apertus-image" {key.with_suffix(".pub").read_text()}')
    return signers


def flip(file: Path, place: int) -> None:
    """Change one bit, whatever the file's mode; size and name stay."""
    mode = file.stat().st_mode
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    file.chmod(mode)


def places(file: Path, count: int) -> Iterator[int]:
    """Some offsets from all over a file, its first and last byte among them."""
    last = file.stat().st_size - 1
    return (last * number // (count - 1) for number in range(count))


def standing(report: Report, what: str) -> str:
    """How the one item of this name stands."""
    (found,) = [item.standing for item in report.items if item.what == what]
    return found


def differing(report: Report) -> dict[str, Item]:
    return {item.what: item for item in report.items if item.standing == DIFFERS}
