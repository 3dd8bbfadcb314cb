"""What a derivation sees of the library is what its module imports, no less, no more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools/apertus_image"
CALLS = re.findall(
    r'module = "([a-z.]+)";\s+rooms = \[([^\]]*)\];',
    "".join(file.read_text() for file in sorted((ROOT / "nix").rglob("*.nix"))),
)


def imported(module: str) -> set[str]:
    """The rooms that importing a module brings in."""
    code = f"import sys, apertus_image.{module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            check=True, env={"PYTHONPATH": str(ROOT / "tools")})
    names = (name.split(".") for name in result.stdout.split()
             if name.startswith("apertus_image."))
    return {parts[1] for parts in names} - {"errors"}


@pytest.mark.parametrize(("module", "rooms"), CALLS, ids=[module for module, _ in CALLS])
def test_rooms_are_those_imported(module, rooms):
    assert set(re.findall(r'"([^"]+)"', rooms)) == imported(module)


def test_there_are_builders():
    assert len(CALLS) >= 9


ORDER = ["errors", "tree", "place", "pins", "store", "bytecode", "elf", "debian", "fetch",
         "resolve", "wheel", "patch", "image", "application", "oci", "registry", "squashfs", "lint",
         "bundle", "build", "record", "edf", "release", "audit", "commands"]


FILES = sorted(TOOLS.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TOOLS)))
def test_a_room_imports_only_rooms_before_it(file):
    room = file.relative_to(TOOLS).parts[0].removesuffix(".py")
    if room in ("__init__", "ui"):
        return
    others = set(re.findall(r"(?m)^from apertus_image\.(\w+)", file.read_text())) - {room}
    if room == "commands":
        others -= {"ui"}
    assert "ui" not in others
    assert all(ORDER.index(other) < ORDER.index(room) for other in others), others
