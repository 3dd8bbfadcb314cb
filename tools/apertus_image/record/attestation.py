"""The build attestation: what may differ between two honest builders of one record."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from apertus_image.record.document import Document
from apertus_image.record.record import Record

__all__ = ["MEDIA_TYPE", "Attestation", "compose", "tools"]

MEDIA_TYPE = "application/vnd.apertus-image.attestation.v1+json"


@dataclass(frozen=True)
class Attestation(Document):
    """An attestation; its fields are in docs/record.md and schemas/attestation-1.json."""

    kind: ClassVar[str] = "attestation"


def compose(record: Record, *, maker: str, check: str, started: datetime, finished: datetime,
            versions: Mapping[str, str] | None = None) -> Attestation:
    """The attestation of this machine's build.

    Neither the machine's name nor the user's is in it.

    Args:
        maker: `nix2container` or `emitter`, what made the layers.
        check: how the export was read back, `full` or `quick`.
        started, finished: with their time zone.
        versions: of further programs; `tools()` are always in it.

    Raises:
        UserError: a field is malformed.
    """
    return Attestation.of({
        "record": record.digest, "maker": maker, "check": check,
        "tools": {**tools(), **(versions or {})},
        "host": {"kernel": platform.release(), "architecture": platform.machine()},
        "started": _utc(started), "finished": _utc(finished),
    })


def tools() -> dict[str, str]:
    """Program -> version, of those that every build uses; what is not here is left out."""
    found = {"python": platform.python_version()}
    for name, command in (("nix", ["nix", "--version"]), ("git", ["git", "--version"])):
        try:
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        found[name] = said.split()[-1]
    return found


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
