"""Wheels that are pinned, where prefetch has brought them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apertus_image.fetch import plan
from apertus_image.store.store import Store

LOCK = Path(__file__).parents[2] / "nix/pins/wheels.json"


def wheel(name: str, machine: str = "x86_64") -> Path:
    """The file of a pinned wheel; skips where it is not in the store."""
    root = os.environ.get("APERTUS_STORE")
    entry = next(each for each in plan.wheels(LOCK, machine) if each.name == name)
    file = Store(Path(root) if root else None).physical(entry.store_path)
    if not file.exists():
        pytest.skip(f"not run: the {name} wheel for {machine} is not here (tools/prefetch)")
    return file
