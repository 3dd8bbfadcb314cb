"""What a new resolution would change in a lock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["differences"]


def differences(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[str]:
    """One line for each pin that moved, came or went, and for each other field.

    Args:
        old: the lock there is, None if there is none.
    """
    old = old or {}
    lines = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if isinstance(before or after, list):
            lines += _pins(key, before or [], after or [])
        else:
            lines.append(f"{key}: {before} -> {after}")
    return lines


def _pins(section: str, before: list[dict], after: list[dict]) -> list[str]:
    was, now = ({pin["name"]: pin for pin in pins} for pins in (before, after))
    lines = []
    for name in sorted({*was, *now}):
        old, new = was.get(name), now.get(name)
        if old == new:
            continue
        if old is None:
            lines.append(f"{section}: + {name} {new['version']}")
        elif new is None:
            lines.append(f"{section}: - {name} {old['version']}")
        elif old["version"] != new["version"]:
            lines.append(f"{section}:   {name} {old['version']} -> {new['version']}")
        elif old.get("sha256") != new.get("sha256"):
            # The same version with other bytes is the loudest thing a lock can say.
            lines.append(f"{section}: ! {name} {old['version']}: other bytes, sha256 "
                         f"{old['sha256'][:12]} -> {new['sha256'][:12]}")
        else:
            lines.append(f"{section}:   {name} {old['version']}: described differently")
    return lines
