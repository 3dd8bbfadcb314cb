"""A verdict: what one probe found of one record, in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from apertus_image.record.document import Document
from apertus_image.record.record import Record

__all__ = ["MEDIA_TYPE", "Verdict", "compose"]

MEDIA_TYPE = "application/vnd.apertus-image.verdict.v1+json"


@dataclass(frozen=True)
class Verdict(Document):
    """A verdict; its fields are in docs/record.md and schemas/verdict-1.json."""

    kind: ClassVar[str] = "verdict"

    @property
    def passed(self) -> bool:
        return self.data["verdict"] == "pass"


def compose(record: Record, probe: str, passed: bool,
            details: Mapping[str, Any] | None = None) -> Verdict:
    """A probe's verdict on a record.

    Args:
        probe: its name, also that of the file (NAME.verdicts/PROBE.json).
        details: the probe's own, of what JSON has.

    Raises:
        UserError: a field is malformed.
    """
    return Verdict.of({"record": record.digest, "probe": probe, "details": dict(details or {}),
                       "verdict": "pass" if passed else "fail"})
