"""Recomputing the hashes of patches, so that nobody copies one by hand."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.patch.data import FIELDS, Patch, sha256
from apertus_image.patch.diff import parse

__all__ = ["Change", "folders", "relock"]


@dataclass(frozen=True)
class Change:
    """A hash that a patch's description had wrong; None where it had none."""

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
    series = json.loads((root / "series.json").read_text())
    listed = [root / name for names in series.values() for name in names]
    present = {meta.parent for meta in root.glob("*/*/patch.json")}
    if set(listed) != present:
        wrong = sorted(str(path.relative_to(root)) for path in set(listed) ^ present)
        raise UserError("series.json and the patch folders differ", where=root / "series.json",
                        got=", ".join(wrong), next_step="list each folder once, in order")
    return listed


def relock(
    patches: list[Path], wheel: Callable[[str, str], Path], *, write: bool = True
) -> list[Change]:
    """Recompute before- and after-hashes; patches of one wheel build on each other in order.

    Args:
        patches: patch folders, in the order they are applied.
        wheel: (name, version) -> the pinned wheel.
        write: whether to write patch.json; a check does not.

    Raises:
        UserError: a diff does not fit.
    """
    changes: list[Change] = []
    state: dict[tuple[str, str, str], bytes] = {}
    for folder in patches:
        meta = folder / "patch.json"
        data = json.loads(meta.read_text())
        files = _recomputed(data, (folder / "patch.diff").read_text(), state, wheel)
        for path, new in files.items():
            old = data.get("files", {}).get(path, {})
            changes += [Change(data["name"], path, which, old.get(which), new[which])
                        for which in ("before", "after") if old.get(which) != new[which]]
        if write and data.get("files") != files:
            data["files"] = files
            ordered = {field: data[field] for field in FIELDS if field in data}
            temporary = meta.with_suffix(".json.part")
            temporary.write_text(json.dumps(ordered, indent=2, ensure_ascii=False) + "\n")
            temporary.replace(meta)
    return changes


def _recomputed(
    data: Mapping, diff: str, state: dict[tuple[str, str, str], bytes],
    wheel: Callable[[str, str], Path],
) -> dict[str, dict[str, str]]:
    patch = Patch(data["name"], data["wheel"], data["version"], {}, diff)
    found = {}
    for file in sorted(parse(diff, patch.name), key=lambda each: each.path):
        key = (patch.wheel, patch.version, file.path)
        if key not in state:
            with zipfile.ZipFile(wheel(patch.wheel, patch.version)) as archive:
                try:
                    state[key] = archive.read(file.path)
                except KeyError as error:
                    raise UserError("a patch changes a file that the wheel does not have",
                                    where=f"{patch.name}, {file.path}") from error
        before = state[key]
        state[key] = patch.changed(file.path, before)
        found[file.path] = {"before": sha256(before), "after": sha256(state[key])}
    return found
