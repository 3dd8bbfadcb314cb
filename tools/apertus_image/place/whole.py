"""Files that are whole or not there, and that last."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["synced", "write_whole"]


def write_whole(file: Path, data: bytes) -> None:
    """Write a file under another name, and give it its own by a rename."""
    part = file.with_name(f".{file.name}.{secrets.token_hex(6)}.part")
    try:
        with part.open("xb") as out:
            out.write(data)
        synced(part)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def synced(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
