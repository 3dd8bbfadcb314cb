"""A small wheel, installed, and patches for it."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import zipfile
from pathlib import Path

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SITE = f"opt/apertus/lib/python{PYTHON}/site-packages"
SOURCE = "VALUE = 1\n\n\ndef f():\n    return VALUE\n"
DIFF = "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -1 +1 @@\n-VALUE = 1\n+VALUE = 2\n"
SECOND = "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -5 +5 @@\n-    return VALUE\n+    return VALUE + 1\n"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def row(path: str, text: bytes) -> str:
    value = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    return f"{path},sha256={value},{len(text)}\n"


def wheel(folder: Path) -> Path:
    """A wheel of pkg 1.0 with pkg/m.py."""
    file = folder / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("pkg/__init__.py", "")
        archive.writestr("pkg/m.py", SOURCE)
    return file


def installed(folder: Path) -> Path:
    """The tree that the wheel is installed in: its files, bytecode's rows, RECORD."""
    site = folder / SITE
    (site / "pkg").mkdir(parents=True)
    (site / "pkg/__init__.py").write_text("")
    (site / "pkg/m.py").write_text(SOURCE)
    tag = sys.implementation.cache_tag
    rows = [row("pkg/__init__.py", b""), row("pkg/m.py", SOURCE.encode()),
            f"pkg/__pycache__/m.{tag}.pyc,,\n", "pkg-1.0.dist-info/RECORD,,\n"]
    (site / "pkg-1.0.dist-info").mkdir()
    (site / "pkg-1.0.dist-info/RECORD").write_text("".join(rows))
    return folder


def patch(
    folder: Path, name: str, before: str, after: str, diff: str = DIFF, /, **other: object
) -> dict[str, str]:
    """A patch folder, with `other` fields; gives what a builder's spec says of it."""
    place = folder / name
    place.mkdir(parents=True)
    (place / "patch.diff").write_text(diff)
    (place / "patch.json").write_text(json.dumps({
        "name": name, "wheel": "pkg", "version": "1.0", "upstream": {"origin": "here"},
        "licence": "MIT", "summary": "s",
        "files": {"pkg/m.py": {"before": sha256(before), "after": sha256(after)}},
    } | other))
    return {"name": name, "diff": str(place / "patch.diff"), "meta": str(place / "patch.json")}
