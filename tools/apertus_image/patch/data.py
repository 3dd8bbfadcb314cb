"""A patch's folder: `patch.diff`, and `patch.json` with its hashes and its origin."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError, raise_all
from apertus_image.patch.diff import FileDiff, apply, parse

__all__ = ["FIELDS", "Patch", "describe", "patched", "sha256"]

# In the order they are written. `files` is tools/lock's, the others are by hand.
FIELDS = {"name": str, "wheel": str, "version": str, "upstream": dict, "licence": str,
          "summary": str, "files": dict}
HASH = re.compile(r"[0-9a-f]{64}")


def sha256(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def describe(meta: Path) -> dict[str, Any]:
    """Read patch.json, all but the hashes checked; `files` may be missing.

    Raises:
        UserError: it is no JSON, or lacks a field (all faults are told).
    """
    try:
        data = json.loads(meta.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError("a patch's description is not JSON", where=meta, got=error) from error
    if not isinstance(data, dict):
        raise UserError("a patch's description is no object", where=meta,
                        expected=", ".join(FIELDS), got=type(data).__name__)
    data.setdefault("files", {})
    problems = [
        UserError("a patch's description lacks a field", where=meta,
                  expected=f"{field}: {'a text' if kind is str else 'an object'}, not empty",
                  got=data.get(field, "none"))
        for field, kind in FIELDS.items()
        if not isinstance(data.get(field), kind) or not (data[field] or field == "files")
    ]
    if not problems:
        problems = [
            UserError("a patch's description is wrong about a file", where=f"{meta}, {path}",
                      expected='{"before": ..., "after": ...}', got=each,
                      next_step="take the entry out, then tools/lock patches")
            for path, each in data["files"].items() if not isinstance(each, dict)
        ]
    raise_all(problems, "a patch's description has {n} faults")
    return data


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

    @cached_property
    def diffs(self) -> dict[str, FileDiff]:
        """Path in the wheel -> its part of the diff.

        Raises:
            UserError: the diff is malformed, or changes what the installer writes.
        """
        diffs = {file.path: file for file in parse(self.diff, self.name)}
        if made := [path for path in diffs if path.endswith(".dist-info/RECORD")]:
            raise UserError("a patch changes RECORD, which is made true by itself",
                            where=f"{self.name}, {made[0]}", next_step="leave it out of the diff")
        return diffs

    @classmethod
    def load(cls, meta: Path, diff: Path) -> Patch:
        """Read a patch.

        Raises:
            UserError: a field is missing, a hash is none, or the files named are not those
                of the diff.
        """
        data = describe(meta)
        files = data["files"]
        bad = [path for path, each in files.items() if not all(
            HASH.fullmatch(str(each.get(which))) for which in ("before", "after"))]
        if bad:
            raise UserError("a patch's description lacks hashes", where=f"{meta}, {bad[0]}",
                            expected="before and after, 64 hex digits each", got=files[bad[0]],
                            next_step="tools/lock patches")
        patch = cls(data["name"], data["wheel"], data["version"],
                    {path: (each["before"], each["after"]) for path, each in files.items()},
                    diff.read_text(encoding="utf-8"))
        if set(patch.diffs) != set(files):
            raise UserError("a patch's description names other files than its diff", where=meta,
                            expected=", ".join(sorted(patch.diffs)),
                            got=", ".join(sorted(files)) or "none",
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
                "check the wheel's version and the patches' order, then tools/lock patches",
            )
        after = self.changed(path, before)
        if sha256(after) != wanted_after:
            raise UserError("a patch gives another file than recorded",
                            where=f"{self.name}, {path}", expected=f"sha256 {wanted_after}",
                            got=f"sha256 {sha256(after)}", next_step="tools/lock patches")
        return after

    def changed(self, path: str, before: bytes) -> bytes:
        """One file after the patch, its hashes not looked at."""
        try:
            text = before.decode()
        except UnicodeDecodeError as error:
            raise UserError("a patch is for a file that is no text",
                            where=f"{self.name}, {path}", got=error) from error
        return apply(text, self.diffs[path], self.name).encode()


def patched(patches: Sequence[Patch], pristine: Callable[[str], bytes]) -> dict[str, bytes]:
    """Every file that patches change, after all of them, in the order given.

    Args:
        pristine: gives a file of the wheel; KeyError where it has none.

    Raises:
        UserError: as Patch.apply, or the wheel has no such file.
    """
    files: dict[str, bytes] = {}
    for patch in patches:
        for path in patch.files:
            try:
                before = files[path] if path in files else pristine(path)
            except KeyError as error:
                raise UserError("a patch changes a file that the wheel does not have",
                                where=f"{patch.name}, {path}") from error
            files[path] = patch.apply(path, before)
    return files
