"""Two flake.lock files, compared by what each input is on its path from the root.

A node's name says nothing: Nix numbers them as it goes (`nixpkgs_2`), so one that was renamed has
not changed, and one of the same name may be another input. Source: Nix manual, "Lock files".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apertus_image.audit.report import Change
from apertus_image.errors import UserError

__all__ = ["APPLICATION", "ROLES", "Input", "application", "compare", "inputs", "read"]

VERSIONS = (5, 6, 7)
NOT_CONTENT = ("narHash", "lastModified", "rev", "revCount", "ref")
WHERE = ("owner", "repo", "url", "host")

APPLICATION = "source"
# What an input of the root is for, by its name: (exit code if it moves, what to know of it).
ROLES = {
    "nix2container": (0, "it makes the layers; their bytes must stay the same, and --build with "
                         "it in reach proves it"),
    APPLICATION: (10, "it is the application's own layer"),
}


@dataclass(frozen=True)
class Input:
    """One input, at its path.

    Attributes:
        follows: path of the input that it is, where it follows one; None where it is its own.
        locked, original: attributes of the node, that of the followed one resolved.
        flake: whether it is evaluated as a flake.
    """

    follows: tuple[str, ...] | None
    locked: Mapping[str, Any] = field(default_factory=dict)
    original: Mapping[str, Any] = field(default_factory=dict)
    flake: bool = True


def read(file: Path) -> dict[str, Any]:
    """Parse a flake.lock.

    Raises:
        UserError: it is none, or of another version.
    """
    try:
        lock = json.loads(file.read_bytes())
        if not isinstance(lock["nodes"][lock["root"]], dict):
            raise TypeError("no root")
        version = lock["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError("not a flake.lock", where=file, got=f"{type(error).__name__}: {error}",
                        next_step="git checkout flake.lock") from error
    if version not in VERSIONS:
        raise UserError("the flake's lock has a version this project does not know", where=file,
                        expected=" or ".join(map(str, VERSIONS)), got=version)
    return lock


def inputs(lock: Mapping[str, Any], where: object = None) -> dict[str, Input]:
    """Path from the root (`a/b`) -> input; what an input follows is not walked again.

    Raises:
        UserError: a node that is not there, an input that follows none, or itself.
    """
    nodes, found = lock["nodes"], {}

    def fault(path: tuple[str, ...], got: object) -> UserError:
        return UserError("the lock's graph is broken", where=f"{where or 'flake.lock'}: input "
                         f"{'/'.join(path)}", got=got, next_step="git checkout flake.lock")

    def node(name: object, path: tuple[str, ...]) -> Mapping[str, Any]:
        if not isinstance(name, str) or not isinstance(nodes.get(name), dict):
            raise fault(path, f"no node {name}")
        return nodes[name]

    def target(reference: object, path: tuple[str, ...], seen: tuple) -> str:
        """The node's name, with `follows` resolved from the root."""
        if isinstance(reference, str):
            return reference
        steps = tuple(reference) if isinstance(reference, list) else None
        if steps is None or steps in seen:
            raise fault(path, f"follows {'/'.join(steps)}, which leads back to it" if steps
                        else f"neither a node nor a path: {reference!r}")
        at = lock["root"]
        for step in steps:
            below = node(at, path).get("inputs", {})
            if step not in below:
                raise fault(path, f"follows {'/'.join(steps)}, which is not there")
            at = target(below[step], path, (*seen, steps))
        return at

    def walk(name: str, above: tuple[str, ...], parents: tuple[str, ...]) -> None:
        for step, reference in sorted(node(name, above).get("inputs", {}).items()):
            path = (*above, step)
            at = target(reference, path, ())
            its = node(at, path)
            follows = tuple(reference) if isinstance(reference, list) else None
            found["/".join(path)] = Input(follows, its.get("locked", {}), its.get("original", {}),
                                          its.get("flake", True))
            if follows is None:
                if at in parents:
                    raise fault(path, f"node {at} is an input of itself")
                walk(at, path, (*parents, at))

    walk(lock["root"], (), (lock["root"],))
    return found


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """What differs, input by input.

    Args:
        old, new: as `read` gives them.
    """
    before, after = inputs(old, "the old flake.lock"), inputs(new, "the new flake.lock")
    for path in sorted(before.keys() | after.keys()):
        if path not in before:
            yield _change("added", path, "", _text(after[path]))
        elif path not in after:
            yield _change("removed", path, _text(before[path]), "")
        else:
            yield from _differs(path, before[path], after[path])
    if old["version"] != new["version"]:
        yield Change("lock", "changed", "flake.lock's version", str(old["version"]),
                     str(new["version"]))


def application(lock: Mapping[str, Any]) -> object:
    """What is locked as the application's source; None where it is the flake itself, or nothing."""
    found = inputs(lock).get(APPLICATION)
    return None if found is None or found.follows == () else _content(found)


def _differs(path: str, old: Input, new: Input) -> Iterator[Change]:
    if old.follows != new.follows:
        same = "the same content" if _content(old) == _content(new) else "another content"
        yield _change("changed", path, _follows(old), _follows(new), same)
        return
    if old.follows is not None:
        return  # what it follows is told at its own path
    places = [{key: value for key, value in each.locked.items() if key not in NOT_CONTENT}
              for each in (old, new)]
    moved_place = places[0] != places[1]
    # A commit is one content wherever it is kept; what is taken of it may differ.
    kept = [{key: value for key, value in each.items() if key not in WHERE} for each in places]
    rev = old.locked.get("rev"), new.locked.get("rev")
    hashes = old.locked.get("narHash"), new.locked.get("narHash")
    back = _backwards(old, new)
    if hashes[0] != hashes[1] and rev[0] == rev[1] and (
            not moved_place or rev[0] and kept[0] == kept[1]):
        at = f"rev {rev[0]}" if rev[0] else "URL"
        yield Change(
            "input", "hash changed", path, str(hashes[0]), str(hashes[1]), stop=True,
            notes=(f"other files at the same {at}",
                   *(["from another place"] if moved_place else []), *back),
            next_step="find out why before anything is built: the files that were reviewed are "
                      "not those that are locked")
    elif moved_place or rev[0] != rev[1]:
        notes = ["from another place"] if moved_place else []
        notes += ["the same files"] if hashes[0] == hashes[1] else []
        yield _change("moved", path, _text(old), _text(new), *notes, *back)
    elif _date(old) != _date(new):
        yield _change("changed", path, _date(old), _date(new), "the date alone", *back)
    if old.flake != new.flake:
        yield _change("changed", path, f"flake = {json.dumps(old.flake)}",
                      f"flake = {json.dumps(new.flake)}")
    if old.original != new.original and rev[0] == rev[1] and not moved_place:
        yield _change("changed", path, f"asked for as {_attributes(old.original)}",
                      f"asked for as {_attributes(new.original)}")


def _change(kind: str, path: str, old: str, new: str, *notes: str) -> Change:
    role = ROLES.get(path)
    return Change("input", kind, path, old, new, notes=(*notes, *([role[1]] if role else [])))


def _content(one: Input) -> object:
    return one.locked.get("narHash") or (one.locked.get("rev"), one.original)


def _backwards(old: Input, new: Input) -> tuple[str, ...]:
    before, after = (one.locked.get("lastModified") for one in (old, new))
    numbers = isinstance(before, int) and isinstance(after, int)
    return ("goes back in time",) if numbers and after < before else ()


def _date(one: Input) -> str:
    try:
        return f"{datetime.fromtimestamp(one.locked['lastModified'], UTC):%Y-%m-%d}"
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return ""


def _follows(one: Input) -> str:
    if one.follows is None:
        return f"its own: {_text(one)}"
    return f"follows {'/'.join(one.follows) or 'the flake itself'}"


def _text(one: Input) -> str:
    """An input in a line: place, revision, date."""
    if one.follows is not None:
        return _follows(one)
    locked = one.locked
    place = locked.get("url") or locked.get("path") or "/".join(
        filter(None, (str(locked.get("owner", "")), str(locked.get("repo", "")))))
    parts = [str(place), str(locked.get("ref", "")), str(locked.get("rev", ""))[:12], _date(one)]
    return " ".join(filter(None, parts)) or "nothing"


def _attributes(original: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(original.items())) or "nothing"
