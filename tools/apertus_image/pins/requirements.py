"""Requirement files: what people ask for, by hand, one line each."""

from __future__ import annotations

import hashlib
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["lines", "normalised", "sha256"]


def lines(file: Path) -> list[str]:
    """The requirements of a file: comments, blanks and line endings taken away.

    Raises:
        UserError: the file is missing.
    """
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError as error:
        raise UserError(
            "a requirements file is missing", where=file, next_step=f"git checkout {file.name}"
        ) from error
    stripped = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in stripped if line]


def normalised(file: Path) -> str:
    """What is hashed: the same for CRLF or LF, with or without comments (case 48)."""
    return "".join(line + "\n" for line in lines(file))


def sha256(file: Path) -> str:
    """The checksum a lock keeps of the file it was made from (hex)."""
    return hashlib.sha256(normalised(file).encode()).hexdigest()
