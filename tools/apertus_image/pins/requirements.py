"""Requirement files: what people ask for, by hand, one line each."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["lines", "normalised", "sha256"]

BLANKS = " \t\n\r\v\f"


def lines(file: Path) -> list[str]:
    """The requirements of a file: comments, blanks and line endings taken away.

    Raises:
        UserError: the file is missing, or not UTF-8.
    """
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError as error:
        raise UserError(
            "a requirements file is missing", where=file, next_step=f"git checkout {file.name}"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(
            "a requirements file is not UTF-8 text", where=file, got=error,
            next_step="save it as UTF-8",
        ) from error
    # The same lines and blanks as in nix/pins/default.nix: str.splitlines knows more of both.
    stripped = (line.split("#", 1)[0].strip(BLANKS) for line in re.split(r"\r?\n", text))
    return [line for line in stripped if line]


def normalised(file: Path) -> str:
    """What is hashed: the same for CRLF or LF, with or without comments (case 48)."""
    return "".join(line + "\n" for line in lines(file))


def sha256(file: Path) -> str:
    """The checksum a lock keeps of the file it was made from (hex)."""
    return hashlib.sha256(normalised(file).encode()).hexdigest()
