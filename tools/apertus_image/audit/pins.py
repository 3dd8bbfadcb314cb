"""Two revisions' pins: locks, requirements, waivers and patches, read from two folders.

A pin is known by its name in its lock. Its hash may change with its version and never without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from apertus_image.audit.debversion import earlier
from apertus_image.audit.report import Change
from apertus_image.errors import UserError
from apertus_image.patch.data import sha256
from apertus_image.pins import requirements

__all__ = ["compare"]

PINS = "nix/pins"
# Lock -> (group, its lists of pins).
LISTS = {
    "wheels.json": ("wheel", ("x86_64", "aarch64")),
    "userland.json": ("userland", ("amd64", "arm64")),
    "toolchain.json": ("toolchain", ("amd64", "arm64")),
    "toolchain-go.json": ("toolchain", ("amd64", "arm64")),
    "bootstrap.json": ("toolchain", ("amd64", "arm64")),
}
GO = "go.json"
SELECTION = "smoke.json"  # of names of pins, by kind
UNSAID = ("requirements", "format", "kind")  # said otherwise, or never
DATES = ("exclude_newer", "date")
ROOMS = re.compile(r"rooms = \[([^\]]*)\]")
FEW = 8
BY_CONTENT = re.compile(r"nix/(pins|patches)/.*")


def compare(old: Path, new: Path) -> Iterator[Change]:
    """All that differs in nix/ but the derivations' own reasons.

    Args:
        old, new: roots of two revisions' files.

    Raises:
        UserError: a lock is no JSON.
    """
    for name, (group, sections) in LISTS.items():
        before, after = (_json(root / PINS / name) for root in (old, new))
        yield from _lists(name, group, sections, before, after)
        yield from _heads(name, group, sections, before, after)
    before, after = (_json(root / PINS / GO) for root in (old, new))
    yield from _heads(GO, "toolchain", (), before, after)
    yield from _selection(*(_json(root / PINS / SELECTION) for root in (old, new)))
    yield from _requirements(old, new)
    yield from _waivers(old, new)
    yield from _patches(old / "nix/patches", new / "nix/patches")
    yield from _code(old, new)


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UserError("a lock is not JSON", where=file, got=error,
                        next_step=f"git checkout {file.name}") from error
    if not isinstance(found, dict):
        raise UserError("a lock is no object", where=file, next_step=f"git checkout {file.name}")
    return found


def _lists(name: str, group: str, sections: tuple[str, ...], old: Mapping[str, Any],
           new: Mapping[str, Any]) -> Iterator[Change]:
    """Pins of all sections, those that moved alike in several told once."""
    found: dict[tuple, list[str]] = {}
    for section in sections:
        before, after = ({each["name"]: each for each in lock.get(section) or []
                          if isinstance(each, dict) and "name" in each} for lock in (old, new))
        for pin in sorted(before.keys() | after.keys()):
            change = _pin(group, pin, before.get(pin), after.get(pin))
            if change is not None:
                found.setdefault(change, []).append(section)
    for (kind, pin, was, now, notes, stop), where in found.items():
        yield Change(group, kind, pin, was, now, (name.removesuffix(".json"), *where), notes, stop,
                     "find out whose file it is before anything is built; a lock that is right "
                     "says another version" if stop else "")


def _pin(group: str, name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
         ) -> tuple | None:
    if old == new:
        return None
    if old is None or new is None:
        kind = "added" if old is None else "removed"
        return kind, name, str((old or {}).get("version", "")), str((new or {}).get("version", "")
                                                                    ), (), False
    was, now = str(old.get("version")), str(new.get("version"))
    if was != now:
        back = _older(group, now, was)
        return "moved", name, was, now, ("goes back in time",) if back else (), False
    if old.get("sha256") != new.get("sha256"):
        files = [each.get("file") or str(each.get("path")).rpartition("/")[2]
                 for each in (old, new)]
        notes = (f"other bytes at version {was}",
                 *([f"{files[0]} was {files[1]}"] if files[0] != files[1] else []))
        return "hash changed", name, str(old.get("sha256")), str(new.get("sha256")), notes, True
    fields = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    return "changed", name, was, now, (f"the same file; the lock's {', '.join(fields)}",), False


def _older(group: str, one: str, other: str) -> bool:
    """Whether a version is earlier than another; unknown forms are not."""
    if group != "wheel":
        return earlier(one, other)
    try:
        return Version(one) < Version(other)
    except InvalidVersion:
        return False


def _heads(name: str, group: str, sections: tuple[str, ...], old: Mapping[str, Any],
           new: Mapping[str, Any]) -> Iterator[Change]:
    """A lock's other fields: cut-off date, release, CUDA, hashes of trees and modules."""
    if bool(old) != bool(new):
        yield Change("lock", "added" if new else "removed", name)
    if not old or not new:
        return
    for key in sorted({*old, *new} - {*sections, *UNSAID}):
        was, now = old.get(key), new.get(key)
        if was != now:
            back = key in DATES and _date(now) < _date(was)
            yield Change(group, "changed", f"{name}: {key}", _short(was), _short(now),
                         notes=("goes back in time",) if back else ())


def _date(value: object) -> float:
    """Seconds, of either form that locks have; 0 for neither."""
    text = str(value)
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return datetime.fromisoformat(f"{text}T00:00:00+00:00").timestamp()
        return parsedate_to_datetime(text.replace("UTC", "+0000")).timestamp()
    except (TypeError, ValueError):
        return 0.0


def _short(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)[:200]


def _selection(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in sorted({*old, *new}):
        was, now = (set(lock.get(key) or []) for lock in (old, new))
        for name in sorted(was ^ now):
            yield Change("requirements", "added" if name in now else "removed", name,
                         where=(f"{SELECTION}: {key}",))


def _requirements(old: Path, new: Path) -> Iterator[Change]:
    """Lines by hand that came or went; comments and line ends do not count (case 48)."""
    names = {file.name for root in (old, new) for pattern in ("*.in", "*.packages")
             for file in (root / PINS).glob(pattern)}
    for name in sorted(names):
        was, now = (set(requirements.lines(root / PINS / name))
                    if (root / PINS / name).is_file() else set() for root in (old, new))
        for line in sorted(was ^ now):
            yield Change("requirements", "added" if line in now else "removed", line,
                         where=(name,))


def _waivers(old: Path, new: Path) -> Iterator[Change]:
    names = {file.name for root in (old, new) for pattern in ("*waivers.json", "*exceptions.json")
             for file in (root / PINS).glob(pattern)}
    for name in sorted(names):
        was, now = (_entries(root / PINS / name) for root in (old, new))
        for key in [key for key in {**was, **now} if was.get(key) != now.get(key)]:
            kind = "added" if key not in was else "removed" if key not in now else "changed"
            yield Change("waiver", kind, key, was.get(key, ""), now.get(key, ""), where=(name,))


def _entries(file: Path) -> dict[str, str]:
    """What each waives -> its reason."""
    try:
        entries = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UserError("a list of waivers is not JSON", where=file, got=error,
                        next_step=f"git checkout {file.name}") from error
    return {", ".join(f"{key} {_short(value)}" for key, value in each.items() if key != "reason"):
            str(each.get("reason", "")) for each in entries if isinstance(each, dict)}


def _patches(old: Path, new: Path) -> Iterator[Change]:
    """Patches by image, in their order; of each the files with their hashes, and the diff."""
    before, after = (_json(root / "series.json") for root in (old, new))
    for image in sorted({*before, *after}):
        was, now = before.get(image) or [], after.get(image) or []
        for name in sorted({*was, *now}):
            if name in was and name in now:
                yield from _patch(name, old / name, new / name)
            else:
                yield Change("patch", "added" if name in now else "removed", name,
                             notes=tuple(_files(_json((new if name in now else old) / name
                                                      / "patch.json"))))
        if [each for each in was if each in now] != [each for each in now if each in was]:
            yield Change("patch", "changed", f"order for {image}", ", ".join(was), ", ".join(now))


def _patch(name: str, old: Path, new: Path) -> Iterator[Change]:
    diffs = [(sha256(file.read_bytes()) if file.is_file() else "")
             for file in (old / "patch.diff", new / "patch.diff")]
    before, after = (_json(folder / "patch.json") for folder in (old, new))
    was, now = before.get("files") or {}, after.get("files") or {}
    notes = [f"{path}: {_hashes(was.get(path))} was, {_hashes(now.get(path))} is"
             for path in sorted({*was, *now}) if was.get(path) != now.get(path)]
    rest = sorted(key for key in {*before, *after} - {"files"} if before.get(key) != after.get(key))
    notes += [f"{key}: {_short(before.get(key))} was, {_short(after.get(key))} is" for key in rest]
    if diffs[0] == diffs[1] and was != now:
        yield Change("patch", "hash changed", name, notes=tuple(notes), stop=True,
                     next_step="tools/lock patches, and look at what it changes")
    elif diffs[0] != diffs[1]:
        if was == now:
            notes.append("the patched files are the same")
        yield Change("patch", "changed", name, f"diff {diffs[0][:12]}", f"diff {diffs[1][:12]}",
                     notes=tuple(notes))
    elif rest:
        yield Change("patch", "changed", name, notes=tuple(notes))


def _files(meta: Mapping[str, Any]) -> Iterator[str]:
    for path, hashes in sorted((meta.get("files") or {}).items()):
        yield f"{path}: {_hashes(hashes)}"


def _hashes(hashes: Mapping[str, str] | None) -> str:
    if not hashes:
        return "not patched"
    return f"{str(hashes.get('before'))[:12]} -> {str(hashes.get('after'))[:12]}"


def _code(old: Path, new: Path) -> Iterator[Change]:
    """Files of the build that are neither pins nor patches: names alone, by folder."""
    before, after = _hashed(old), _hashed(new)
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    for folder, paths in groupby(changed, key=lambda path: str(Path(path).parent)):
        names = [Path(path).name for path in paths]
        more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        yield Change("code", "changed", folder, notes=(", ".join(names[:FEW]) + more,))


def _hashed(root: Path) -> dict[str, str]:
    """Path -> SHA-256 of flake.nix, nix/, and the rooms of the library that builders name."""
    code = [*(root / "nix").rglob("*"), root / "flake.nix"]
    rooms = {room for file in code if file.suffix == ".nix" and file.is_file()
             for listed in ROOMS.findall(file.read_text(encoding="utf-8", errors="replace"))
             for room in re.findall(r'"(\w+)"', listed)}
    code += [file for room in sorted(rooms)
             for file in (root / "tools/apertus_image" / room).rglob("*.py")]
    paths = (str(file.relative_to(root)) for file in code if file.is_file())
    return {path: sha256((root / path).read_bytes()) for path in paths
            if not BY_CONTENT.fullmatch(path)}
