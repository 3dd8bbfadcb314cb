"""The names of the files of a release: all in one folder, all beginning with the release's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Beside"]

SUFFIXES = (".record.json.sig", ".record.json", ".sbom.cdx.json", ".provenance.json",
            ".attestation.json", ".sqsh.sha256", ".sqsh.json", ".sqsh")


@dataclass(frozen=True)
class Beside:
    """Where the files of one release lie; whether they are there is another question.

    Attributes:
        stem: their path without a suffix.
    """

    stem: Path

    @classmethod
    def of(cls, file: Path) -> Beside | None:
        """The release that a file is of, by its name; None for a file of another kind.

        Links are followed first, so that a `latest` pointer leads to what it points at.
        """
        real = file.resolve()
        for suffix in SUFFIXES:
            if real.name.endswith(suffix) and real.name != suffix:
                return cls(real.with_name(real.name.removesuffix(suffix)))
        return None

    def _at(self, suffix: str) -> Path:
        return Path(f"{self.stem}{suffix}")

    @property
    def sqsh(self) -> Path:
        return self._at(".sqsh")

    @property
    def checksum(self) -> Path:
        """In sha256sum's form."""
        return self._at(".sqsh.sha256")

    @property
    def export(self) -> Path:
        """What tools/export-sqsh writes, also of what is no release."""
        return self._at(".sqsh.json")

    @property
    def record(self) -> Path:
        return self._at(".record.json")

    @property
    def signature(self) -> Path:
        """Of the record."""
        return self._at(".record.json.sig")

    @property
    def sbom(self) -> Path:
        return self._at(".sbom.cdx.json")

    @property
    def provenance(self) -> Path:
        return self._at(".provenance.json")

    @property
    def attestation(self) -> Path:
        return self._at(".attestation.json")

    @property
    def verdicts(self) -> Path:
        """A folder; PROBE.json in it."""
        return self._at(".verdicts")
