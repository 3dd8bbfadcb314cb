"""A pinned wheel as pypa/installer's source: checked, and hashed while it is read."""

from __future__ import annotations

import base64
import binascii
import hashlib
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from installer.exceptions import InstallerError
from installer.records import InvalidRecordEntry, parse_record_file
from installer.sources import WheelFile
from packaging.metadata import InvalidMetadata, parse_email
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    canonicalize_version,
    parse_wheel_filename,
)

from apertus_image.errors import UserError

__all__ = ["NO_WHEEL", "HashedStream", "PinnedWheel", "WheelPin", "open_wheel"]

# What a file that is no wheel, or a damaged one, makes the readers raise.
NO_WHEEL = (
    zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, UnicodeDecodeError,
    InstallerError, InvalidRecordEntry, InvalidWheelFilename, InvalidMetadata,
)


@dataclass(frozen=True)
class WheelPin:
    """A wheel as the lock has it.

    Attributes:
        name, version: canonical name, version as pinned.
        file: true file name, with the tags.
        path: where the file lies; its name there may be mangled (trap 3).
    """

    name: str
    version: str
    file: str
    path: Path


class HashedStream:
    """A binary stream that knows the SHA-256 and size of what was read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        self.size += len(data)
        return data

    @property
    def sha256(self) -> str:
        """Hex digest of what has been read so far."""
        return self._digest.hexdigest()


class PinnedWheel(WheelFile):
    """A wheel whose faults are collected, so that all can be told together (case 36).

    Attributes:
        problems: one line a fault, wheel and member named. Complete once every member
            has been read to its end.
    """

    def __init__(
        self, archive: zipfile.ZipFile, pin: WheelPin, machine: str,
        known_wrong: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        super().__init__(archive)
        self._archive = archive
        self.pin = pin
        self._known_wrong = known_wrong
        self.problems: list[str] = []
        self._check_identity(machine)
        self._expected = self._check_rows()

    def _tell(self, member: str, what: str) -> None:
        self.problems.append(f"{self.pin.file}: {member}: {what}")

    def _check_identity(self, machine: str) -> None:
        """Name and version in METADATA, and the tags of the file name, fit the pin."""
        metadata, _ = parse_email(self.read_dist_info("METADATA"))
        found = (canonicalize_name(metadata.get("name", "")),
                 canonicalize_version(metadata.get("version", "")))
        wanted = (canonicalize_name(self.pin.name), canonicalize_version(self.pin.version))
        if found != wanted:
            self._tell("METADATA", f"says {metadata.get('name')} {metadata.get('version')}, "
                       f"the pin {self.pin.name} {self.pin.version}")
        platforms = {tag.platform for tag in parse_wheel_filename(self.pin.file)[3]}
        if not any(name == "any" or name.endswith(f"_{machine}") for name in platforms):
            self._tell("file name", f"is for {', '.join(sorted(platforms))}, not {machine}")

    def _check_rows(self) -> dict[str, tuple[str, int]]:
        """RECORD and members name each other exactly; give member -> (hex digest, size)."""
        rows = {row[0]: row for row in
                parse_record_file(self.read_dist_info("RECORD").splitlines())}
        own = f"{self.dist_info_dir}/RECORD"
        expected: dict[str, tuple[str, int]] = {}
        for member in self._archive.namelist():
            if member.endswith("/"):
                continue
            if member.startswith("/") or ".." in member.split("/"):
                self._tell(member, "leads out of the environment")
            row = rows.pop(member, None)
            if member == own or member in (f"{own}.jws", f"{own}.p7s"):
                continue
            if row is None:
                self._tell(member, "has no row in RECORD")
                continue
            algorithm, _, value = row[1].partition("=")
            if algorithm != "sha256" or not value or not row[2].isdigit():
                self._tell(member, f"its row has no SHA-256 and size: {row[1]!r}, {row[2]!r}")
                continue
            try:
                digest = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
            except (binascii.Error, ValueError):
                self._tell(member, f"its row's SHA-256 is no base64: {value!r}")
                continue
            expected[member] = (digest, int(row[2]))
        for member in rows:
            if member != own and not member.endswith("/"):
                self._tell(member, "RECORD names it, the wheel has no such file")
        return expected

    def get_contents(self) -> Iterator:
        """Members as installer wants them, each checked against its row once it is read.

        Shipped bytecode is left out: it is made here, from the sources (trap 14).
        """
        excused = {member for member, _ in self._known_wrong}
        for record, stream, executable in super().get_contents():
            member = record[0]
            if "__pycache__" in member.split("/")[:-1] or ".." in member.split("/"):
                continue
            hashed = HashedStream(stream)
            yield record, hashed, executable
            expected = self._expected.get(member)
            if not expected or (hashed.sha256, hashed.size) == expected:
                if member in excused:
                    self._tell(member, "an exception in nix/pins/record-waivers.json that "
                               "nothing needs: its row is right")
            elif (member, hashed.sha256) not in self._known_wrong:
                self._tell(member, f"RECORD says sha256 {expected[0]}, {expected[1]} bytes; "
                           f"the file is sha256 {hashed.sha256}, {hashed.size} bytes")


@contextmanager
def open_wheel(
    pin: WheelPin, machine: str, known_wrong: Iterable[tuple[str, str]] = ()
) -> Iterator[PinnedWheel]:
    """Open a pinned wheel under its true name.

    Args:
        known_wrong: (member, SHA-256 as hex) of files whose row in RECORD is known to be
            the vendor's mistake; the wheel's own hash is pinned all the same.

    Raises:
        UserError: it is no wheel.
    """
    with tempfile.TemporaryDirectory(prefix="apertus-wheel-") as folder:
        link = Path(folder, pin.file)
        link.symlink_to(pin.path.resolve())
        try:
            with zipfile.ZipFile(link) as archive:
                yield PinnedWheel(archive, pin, machine, frozenset(known_wrong))
        except NO_WHEEL as error:
            raise UserError("not a wheel", where=pin.file, got=f"{type(error).__name__}: {error}",
                            next_step="remove it from the store, then tools/prefetch") from error
