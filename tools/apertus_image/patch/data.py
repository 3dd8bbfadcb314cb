"""A patch's folder: `patch.diff`, and `patch.json` with its hashes and its origin."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.patch.diff import apply, parse

__all__ = ["Patch", "patched", "sha256"]

FIELDS = ("name", "wheel", "version", "upstream", "licence", "summary", "files")


def sha256(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Patch:
    """One patch.

    Attributes:
        name: its folder's.
        wheel, version: what it is for.
        files: path in the wheel -> (SHA-256 before, SHA-256 after), hex.
        diff: the text of patch.diff.
    """

    name: str
    wheel: str
    version: str
    files: Mapping[str, tuple[str, str]]
    diff: str

    @classmethod
    def load(cls, meta: Path, diff: Path) -> Patch:
        """Read a patch.

        Raises:
            UserError: a field is missing, or the files named are not those of the diff.
        """
        data = json.loads(meta.read_text())
        if missing := [field for field in FIELDS if not data.get(field)]:
            raise UserError("a patch's description lacks fields", where=meta,
                            expected=", ".join(FIELDS), got=f"no {', '.join(missing)}")
        files = {path: (each["before"], each["after"]) for path, each in data["files"].items()}
        patch = cls(data["name"], data["wheel"], data["version"], files, diff.read_text())
        if (touched := {file.path for file in parse(patch.diff, patch.name)}) != set(files):
            raise UserError("a patch's description names other files than its diff", where=meta,
                            expected=sorted(touched), got=sorted(files),
                            next_step="tools/lock patches")
        return patch

    def apply(self, path: str, before: bytes) -> bytes:
        """One file after the patch, its hash checked before and after.

        Raises:
            UserError: either hash is another, or a hunk does not fit.
        """
        wanted_before, wanted_after = self.files[path]
        found = sha256(before)
        if found != wanted_before:
            already = found == wanted_after
            raise UserError(
                "a patch is in the file already" if already else "a patch is for another file",
                where=f"{self.name}, {path}", expected=f"sha256 {wanted_before}",
                got=f"sha256 {found}",
                next_step="apply it once" if already else
                "check the wheel's version, then tools/lock patches",
            )
        after = self.changed(path, before)
        if sha256(after) != wanted_after:
            raise UserError("a patch gives another file than recorded",
                            where=f"{self.name}, {path}", expected=f"sha256 {wanted_after}",
                            got=f"sha256 {sha256(after)}", next_step="tools/lock patches")
        return after

    def changed(self, path: str, before: bytes) -> bytes:
        """One file after the patch, its hashes not looked at."""
        diff = next(file for file in parse(self.diff, self.name) if file.path == path)
        return apply(before.decode(), diff, self.name).encode()


def patched(patches: list[Patch], pristine: Callable[[str], bytes]) -> dict[str, bytes]:
    """Every file that patches change, after all of them, in the order given.

    Args:
        pristine: gives a file of the wheel.
    """
    files: dict[str, bytes] = {}
    for patch in patches:
        for path in patch.files:
            before = files[path] if path in files else pristine(path)
            files[path] = patch.apply(path, before)
    return files
