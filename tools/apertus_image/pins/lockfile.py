"""Lock files: JSON with one entry a line, so that a diff shows what moved.

Every lock has `format`, `kind` and `requirements` (file name -> checksum of its
normalised text). Lists of objects get one line an object; the rest is indented.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError, raise_all
from apertus_image.pins import requirements
from apertus_image.pins.shape import faults

__all__ = ["FORMAT", "dumps", "load", "read", "stale", "write"]

FORMAT = 1


def dumps(lock: dict[str, Any]) -> str:
    """The canonical text of a lock: same content, same bytes."""
    parts = []
    for key, value in lock.items():
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            body = ",\n".join("    " + json.dumps(item, ensure_ascii=False) for item in value)
            text = f"[\n{body}\n  ]" if value else "[]"
        else:
            text = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n  ")
        parts.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write(lock: dict[str, Any], file: Path) -> None:
    """Replace a lock in one step; a killed run leaves the old one."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(dumps(lock), encoding="utf-8", newline="\n")
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def read(file: Path) -> dict[str, Any]:
    """Parse a lock.

    Raises:
        UserError: it is missing, no JSON, or of another format.
    """
    kind = file.stem
    try:
        lock = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise UserError(
            "a lock is missing; nothing is resolved at build time",
            where=file, next_step=f"git checkout {file.name}, or make it: tools/lock {kind}",
        ) from error
    except ValueError as error:
        raise UserError(
            "a lock is not JSON", where=file, got=error,
            next_step=f"git checkout {file.name}, or tools/lock {kind}",
        ) from error
    found = lock.get("format") if isinstance(lock, dict) else None
    if found != FORMAT:
        raise UserError(
            "a lock has a format this version does not know",
            where=file, expected=f"format {FORMAT}", got=found, next_step=f"tools/lock {kind}",
        )
    return lock


def load(file: Path) -> dict[str, Any]:
    """Read a lock and refuse it if it is malformed or older than its requirements.

    Raises:
        UserError: naming every fault found.
    """
    lock = read(file)
    found = list(faults(lock, file)) or list(stale(lock, file))
    raise_all(found, f"{file.name} has {{n}} faults")
    return lock


def stale(lock: dict[str, Any], file: Path) -> Iterator[UserError]:
    """Requirement files that changed after a whole lock was made from them (case 48)."""
    for name, locked in lock.get("requirements", {}).items():
        current = requirements.sha256(file.parent / name)
        if current != locked:
            yield UserError(
                "a lock is older than its requirements",
                where=f"{file.name}, made from {name}",
                expected=f"requirements with checksum {locked[:12]}", got=current[:12],
                next_step=f"tools/lock {file.stem}",
            )
