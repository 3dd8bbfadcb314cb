"""The tree in which a user's code reaches Nix, and what no such tree may hold.

A prepared tree is a folder with `tree/`, the code, and `apertus-source.json`, which says where
it goes in the image. A bare tree (a flake input that a site pins) has neither and goes to the
usual place. Commits stand in neither: one content is one layer (trap 16).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["USUAL_PLACE", "Place", "checked", "faults", "read", "write"]

USUAL_PLACE = "/opt/nemo-rl"
MARK, TREE = "apertus-source.json", "tree"
FORMAT = 1
PART = re.compile(r"[A-Za-z0-9_+@-][A-Za-z0-9_+@.-]*")
# A container's runtime mounts over the first; the others belong to the image.
TAKEN = ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp",
         "/nix", "/opt/apertus", "/usr/share/apertus")
LONGEST_NAME, LONGEST_PATH = 255, 4095  # bytes, as Linux
WHITEOUT = b".wh."

Place = tuple[Path, str]
"""Where the code lies on this machine, and where it goes in the image."""


def checked(at: str) -> str:
    """A place in the image, if code may lie there.

    Raises:
        UserError: it is no plain absolute path, or something else's.
    """
    parts = at.split("/")
    plain = parts[0] == "" and len(parts) > 1 and all(map(PART.fullmatch, parts[1:]))
    if not plain:
        raise UserError("the code's place in the image is no plain absolute path", got=repr(at),
                        expected=f"a path such as {USUAL_PLACE}, without a slash at its end")
    taken = next((each for each in TAKEN if f"{at}/".startswith(f"{each}/")), None)
    if taken:
        raise UserError("the code's place in the image is taken", got=at,
                        expected=f"a path outside of {', '.join(TAKEN)}",
                        next_step=f"choose another, {USUAL_PLACE} say")
    return at


def write(folder: Path, at: str) -> Path:
    """Make a prepared tree's frame; give the empty folder for the code."""
    (folder / TREE).mkdir(parents=True)
    mark = json.dumps({"format": FORMAT, "at": checked(at)}, indent=2)
    (folder / MARK).write_text(mark + "\n")
    return folder / TREE


def read(folder: Path) -> Place:
    """Where a prepared or bare tree's code lies and goes.

    Raises:
        UserError: it is no folder, or its mark is not understood.
    """
    if not folder.is_dir():
        raise UserError("the application's source is no folder", where=folder)
    if not ((folder / MARK).is_file() and (folder / TREE).is_dir()):
        return folder, USUAL_PLACE
    try:
        mark = json.loads((folder / MARK).read_bytes())
        if mark["format"] != FORMAT:
            raise ValueError(f"format {mark['format']}")
        at = str(mark["at"])
    except (ValueError, TypeError, KeyError) as error:
        raise UserError("an application source's mark is not understood", where=folder / MARK,
                        expected=f'{{"format": {FORMAT}, "at": PATH}}',
                        got=f"{type(error).__name__}: {error}",
                        next_step="make it with tools/build --source DIR") from error
    return folder / TREE, checked(at)


def faults(entries: Iterable[tuple[str, str | None]], at: str) -> Iterator[UserError]:
    """What an image cannot hold, or what would leave the code's own folder.

    Names that differ in case alone are two files on Linux and stay so.

    Args:
        entries: (path below the code's root, a link's target or None) of files and links.
        at: the code's place in the image.
    """
    leaves: set[str] = set()
    folders: set[str] = set()
    for path, target in entries:
        parts = path.split("/")
        if why := _unfit(path, parts, at):
            yield UserError("the image cannot hold a name of the source", where=repr(path), got=why,
                            next_step="rename it in the application's repository")
        if target is not None and (target == "" or "\0" in target
                                   or len(os.fsencode(target)) > LONGEST_PATH):
            yield UserError("a link of the source has no usable target", where=repr(path),
                            got=repr(target[:80]))
        if path in leaves or path in folders or any(
                "/".join(parts[:n]) in leaves for n in range(1, len(parts))):
            yield UserError("the source has one path twice", where=repr(path),
                            got="such a tree was not made by git")
        leaves.add(path)
        folders.update("/".join(parts[:n]) for n in range(1, len(parts)))


def _unfit(path: str, parts: list[str], at: str) -> str | None:
    raw = [os.fsencode(part) for part in parts]
    if any(part in (b"", b".", b"..") for part in raw):
        return "it would leave its folder"
    if any(part.lower() == b".git" for part in raw):
        return "git's own folder; take a commit's tree, as tools/build --source does"
    if any(part.startswith(WHITEOUT) for part in raw):
        return "a layer's own mark of a deleted file"
    if any(byte < 0x20 or byte == 0x7F for part in raw for byte in part):
        return "a control character, which SquashFS's tools cannot be told"
    if any(len(part) > LONGEST_NAME for part in raw):
        return f"a name of more than {LONGEST_NAME} bytes"
    if len(os.fsencode(f"{at}/{path}")) > LONGEST_PATH:
        return f"a path of more than {LONGEST_PATH} bytes"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "a name that is not UTF-8, as a layer's tar wants it"
    return None
