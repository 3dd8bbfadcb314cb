"""Tiny wheels for tests: true ones, and ones broken in a chosen way."""

from __future__ import annotations

import base64
import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
PREFIX = "/opt/apertus"
SITE = f"{PREFIX}/lib/python{PYTHON}/site-packages"

Files = dict[str, str | bytes | tuple[str | bytes, bool]]


def row(path: str, data: bytes) -> str:
    """A row of RECORD."""
    value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={value},{len(data)}\n"


def make(
    folder: Path, name: str, files: Files, *, version: str = "1.0", tag: str = "py3-none-any",
    says: str | None = None, entry_points: str = "", wrong: tuple[str, ...] = (),
    unlisted: tuple[str, ...] = (), missing: tuple[str, ...] = (), rows: str = "",
    metadata: str = "",
) -> dict:
    """Write a wheel; give its pin as a builder's spec has it.

    Args:
        files: member -> content, or (content, executable).
        says: name that METADATA has, if not `name`.
        wrong: members whose row has another hash.
        unlisted: members without a row.
        missing: rows of members that are not there.
        rows: more lines of RECORD, as they are.
        metadata: more lines of METADATA.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    members: Files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {says or name}\nVersion: {version}\n"
        f"{metadata}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        f"Tag: {tag}\n",
    }
    if entry_points:
        members[f"{info}/entry_points.txt"] = entry_points
    record = ""
    file = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for member, content in members.items():
            text, executable = content if isinstance(content, tuple) else (content, False)
            data = text.encode() if isinstance(text, str) else text
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, data)
            if member not in unlisted:
                record += row(member, b"other" if member in wrong else data)
        record += "".join(row(member, b"gone") for member in missing)
        archive.writestr(f"{info}/RECORD", f"{record}{rows}{info}/RECORD,,\n")
    return {"name": name, "version": version, "file": file.name, "path": str(file)}


def mangled(pin: dict) -> dict:
    """The same wheel under a name that tells nothing, as in the store (trap 3)."""
    other = Path(pin["path"]).with_name(f"mangled_{pin['name']}")
    shutil.copyfile(pin["path"], other)
    return {**pin, "path": str(other)}


def spec(*pins: dict, waivers: list[dict] | None = None, **more: object) -> dict:
    """The spec of a group of wheels."""
    return {"prefix": PREFIX, "python": PYTHON, "machine": "x86_64", "wheels": list(pins),
            "waivers": waivers or [], **more}


def waiver(path: str, keep: str, *drop: str) -> dict:
    return {"path": path, "keep": keep, "drop": list(drop), "reason": "a test's"}


def content(root: Path) -> dict[str, object]:
    """A tree as data: path -> (executable, bytes), a link's target, or None for folders."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = "/" + str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = None
        else:
            found[name] = (bool(path.stat().st_mode & 0o100), path.read_bytes())
    return found
