"""Recomputing the hashes of patches, so that nobody copies one by hand.

Only a file that is known is patched: the hash of the wheel's file is recorded when the
patch is first locked, and another file under it stops here. Lines that a diff without
context only adds would fit any file and any place in it, so nothing but this hash says
that it is the right one; for the same reason such a diff stops when a patch before it
changes its file in another way than it did.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.patch.data import FIELDS, Patch, describe, sha256

__all__ = ["Change", "folders", "relock"]


@dataclass(frozen=True)
class Change:
    """A hash that a patch's description had wrong.

    Attributes:
        patch: its name.
        path: the file in the wheel.
        which: `before` or `after`.
        old: what was recorded, None where nothing was.
        new: what is right, "gone" where the patch no longer changes the file.
    """

    patch: str
    path: str
    which: str
    old: str | None
    new: str


def folders(root: Path) -> list[Path]:
    """The patch folders below nix/patches, in the order of series.json.

    Raises:
        UserError: a folder with a patch is in no series, or a series names none.
    """
    series = json.loads((root / "series.json").read_text(encoding="utf-8"))
    listed = Counter(root / name for names in series.values() for name in names)
    present = {file.parent for file in root.glob("*/*/patch.*")}
    wrong = set(listed) ^ present | {path for path, times in listed.items() if times > 1}
    if wrong:
        raise UserError("series.json and the patch folders differ", where=root / "series.json",
                        got=", ".join(sorted(str(path.relative_to(root)) for path in wrong)),
                        next_step="list each folder once, in order")
    return list(listed)


def relock(
    patches: Sequence[Path], wheel: Callable[[str, str], Path], *, write: bool = True
) -> list[Change]:
    """Recompute before- and after-hashes; patches of one wheel build on each other in order.

    Args:
        patches: patch folders, in the order they are applied.
        wheel: (name, version) -> the pinned wheel.
        write: whether to write patch.json; a check does not.

    Raises:
        UserError: a diff does not fit, or is for another file of the wheel than recorded.
    """
    changes: list[Change] = []
    state: dict[tuple[str, str, str], bytes] = {}
    texts: dict[Path, str] = {}
    for folder in patches:
        meta = folder / "patch.json"
        data = describe(meta)
        if data["name"] != folder.name:
            raise UserError("a patch has another name than its folder", where=meta,
                            expected=folder.name, got=data["name"])
        old = data["files"]
        diff = (folder / "patch.diff").read_text(encoding="utf-8")
        patch = Patch(data["name"], data["wheel"], data["version"], {}, diff)
        new = _hashes(patch, old, state, wheel, meta)
        for path in sorted({*old, *new}):
            for which in ("before", "after"):
                was = old.get(path, {}).get(which)
                now = new[path][which] if path in new else "gone"
                if was != now:
                    changes.append(Change(patch.name, path, which, was, now))
        if old != new:
            ordered = {field: (data | {"files": new})[field] for field in FIELDS}
            texts[meta] = json.dumps(ordered, indent=2, ensure_ascii=False) + "\n"
    # Only once every patch has passed: hashes of a part of a series fit nothing.
    for meta, text in texts.items() if write else ():
        temporary = meta.with_suffix(".json.part")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(meta)
    return changes


def _hashes(
    patch: Patch, old: dict[str, dict[str, str]], state: dict[tuple[str, str, str], bytes],
    wheel: Callable[[str, str], Path], meta: Path,
) -> dict[str, dict[str, str]]:
    """The right `files` of one patch; `state` holds the files as patched so far."""
    found = {}
    for path, diff in sorted(patch.diffs.items()):
        key = (patch.wheel, patch.version, path)
        from_the_wheel = key not in state
        before = _pristine(patch, path, wheel) if from_the_wheel else state[key]
        recorded = old.get(path, {}).get("before")
        blind = from_the_wheel or not all(hunk.old for hunk in diff.hunks)
        if blind and recorded not in (None, sha256(before)):
            raise UserError(
                "a patch was written for another file", where=f"{patch.name}, {path}",
                expected=f"sha256 {recorded}", got=f"sha256 {sha256(before)}",
                next_step="see that the diff is right for the file as it is now "
                f"({patch.wheel} {patch.version}"
                f"{'' if from_the_wheel else ' and the patches before'}), "
                f'take its "before" out of {meta}, then tools/lock patches',
            )
        state[key] = patch.changed(path, before)
        found[path] = {"before": sha256(before), "after": sha256(state[key])}
    return found


def _pristine(patch: Patch, path: str, wheel: Callable[[str, str], Path]) -> bytes:
    with zipfile.ZipFile(wheel(patch.wheel, patch.version)) as archive:
        try:
            return archive.read(path)
        except KeyError as error:
            raise UserError("a patch changes a file that the wheel does not have",
                            where=f"{patch.name}, {path}") from error
