"""The first entry in which two builds of one layer differ, and what about it.

These are the tar's own entries, owners' names too, and the builder that brought each is known;
audit/content.py compares trees of artefacts, which have neither, and shows their text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from apertus_image.oci.layer import Layer
from apertus_image.oci.merge import Entry, merged

__all__ = ["Difference", "first_difference"]

CHUNK = 1 << 20
FIELDS = ("type", "mode", "size", "target", "uid", "gid", "uname", "gname")


@dataclass(frozen=True)
class Difference:
    """One entry that differs.

    Attributes:
        entry: its path in the image.
        field: a field of its tar header, `presence` or `content`.
        first, second: what it was in either build.
        tree: the store path's name (without its hash) that brought it; a builder has this name.
    """

    entry: str
    field: str
    first: str
    second: str
    tree: str


def first_difference(
    one: Layer, other: Layer, physical_one: Callable[[str], Path] = Path,
    physical_other: Callable[[str], Path] = Path,
) -> Difference | None:
    """The first entry, in the tar's order, in which two layers differ; None if none does.

    Args:
        physical_one, physical_other: where a store path of either lies on this machine.

    Raises:
        UserError: a store path is gone.
    """
    before = {entry.name: entry for entry in merged(one.paths, physical_one)}
    after = {entry.name: entry for entry in merged(other.paths, physical_other)}

    for name in sorted(before.keys() | after.keys(),
                       key=lambda name: os.fsencode(name).replace(b"/", b"\0")):
        was, now = before.get(name), after.get(name)
        if was is not None and now is not None:
            found = _field(was, now)
        else:
            found = ("presence", was.type if was else "absent", now.type if now else "absent")
        if found:
            # The mode of a folder that no tree has itself is nobody's.
            tree = _tree(one, was, physical_one) or _tree(other, now, physical_other)
            return Difference(name, *found, tree)
    return None


def _field(was: Entry, now: Entry) -> tuple[str, str, str] | None:
    for field in FIELDS:
        first, second = getattr(was, field), getattr(now, field)
        if first != second:
            form = "{:04o}" if field == "mode" else "{}"
            return field, form.format(first), form.format(second)
    if was.type == "file" and (at := _differing_byte(was.source, now.source)) is not None:
        return ("content", f"sha256:{_sha256(was.source)}",
                f"sha256:{_sha256(now.source)}, first at byte {at}")
    return None


def _differing_byte(one: str, other: str) -> int | None:
    """The offset of the first byte in which two files differ."""
    offset = 0
    with Path(one).open("rb") as first, Path(other).open("rb") as second:
        while True:
            here, there = first.read(CHUNK), second.read(CHUNK)
            if here != there:
                both = zip(here, there, strict=False)
                return offset + next((at for at, (a, b) in enumerate(both) if a != b),
                                     min(len(here), len(there)))
            if not here:
                return None
            offset += len(here)


def _sha256(file: str) -> str:
    with Path(file).open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _tree(layer: Layer, entry: Entry | None, physical: Callable[[str], Path]) -> str:
    if entry is None or not entry.source:
        return ""
    for path in layer.paths:
        if f"{entry.source}/".startswith(f"{physical(path.path)}/"):
            return path.path.rpartition("/")[2].partition("-")[2]
    return ""
