"""Unified diffs without context, applied exactly: no fuzz, no offset (case 30).

A hunk names the lines it replaces and what they say; anything else stops it. Beside the
hunks a diff holds only what git puts before a file's: `diff` and `index` lines, whose ids
grow with the years and say nothing about the content. Modes, renames, files made or
removed, and anything not understood are refused, so that no part of a diff is lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from apertus_image.errors import UserError

__all__ = ["FileDiff", "Hunk", "apply", "parse"]

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(?: .*)?")
SAYS_NOTHING = ("diff ", "index ")


@dataclass(frozen=True)
class Hunk:
    """Lines `start` to `start + len(old) - 1` (from 1) say `old` and become `new`.

    With no old lines, the new ones come after line `start`.
    """

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def first(self) -> int:
        """The index, from 0, of the first line replaced, or where the new ones go."""
        return self.start - 1 if self.old else self.start


@dataclass(frozen=True)
class FileDiff:
    """The hunks of one file, in order and apart; `path` without the a/ or b/."""

    path: str
    hunks: tuple[Hunk, ...]


def parse(text: str, patch: str) -> list[FileDiff]:
    """Read a diff.

    Args:
        patch: its name, for messages.

    Raises:
        UserError: it is malformed, has context lines, makes or removes a file, or names a
            path twice or outside the wheel.
    """
    files: dict[str, list[Hunk]] = {}
    hunks: list[Hunk] | None = None
    moved = 0
    lines = text.split("\n")
    at = 0

    def wrong(what: str) -> UserError:
        return UserError("a patch is malformed", where=f"{patch}, line {at + 1}", got=what,
                         expected="a unified diff without context (git diff -U0)")

    while at < len(lines):
        line = lines[at]
        if line.startswith("--- "):
            path = _path(line, lines[at + 1] if at + 1 < len(lines) else "")
            if path is None:
                raise wrong(" / ".join(lines[at : at + 2]))
            if path in files:
                raise wrong(f"{path} for a second time")
            hunks, moved = files.setdefault(path, []), 0
            at += 2
        elif match := HUNK.fullmatch(line):
            if hunks is None:
                raise wrong("a hunk before any file")
            removed, added = (int(match[n] or 1) for n in (2, 4))
            body = lines[at + 1 : at + 1 + removed + added]
            if "-" * removed + "+" * added != "".join(each[:1] for each in body):
                raise wrong(f"other lines than the hunk announces ({removed} -, {added} +): {line}")
            hunk = Hunk(int(match[1]), tuple(each[1:] for each in body[:removed]),
                        tuple(each[1:] for each in body[removed:]))
            if not body or hunk.first < (_end(hunks[-1]) if hunks else 0):
                raise wrong(f"a hunk that is empty, or not after the one before: {line}")
            # The second number follows from all before it; another one hides a lost hunk.
            if int(match[3]) != hunk.first + moved + bool(added):
                raise wrong(f"a hunk whose lines do not come to stand where it says: {line}")
            hunks.append(hunk)
            moved += added - removed
            at += 1 + len(body)
        elif line and not line.startswith(SAYS_NOTHING):
            raise wrong(line)
        else:
            at += 1
    if not files or not all(files.values()):
        raise wrong("no hunk")
    return [FileDiff(path, tuple(each)) for path, each in files.items()]


def _path(old: str, new: str) -> str | None:
    """The path in `--- a/PATH` and `+++ b/PATH`; None if it is not one inside the wheel."""
    path = old[6:]
    if not old.startswith("--- a/") or new != f"+++ b/{path}":
        return None
    plain = PurePosixPath(path)
    inside = path == str(plain) and not plain.is_absolute() and ".." not in plain.parts
    return path if inside and path != "." else None


def _end(hunk: Hunk) -> int:
    return hunk.first + len(hunk.old)


def apply(text: str, diff: FileDiff, patch: str) -> str:
    """The file after the diff.

    A last line without its newline is no line that a diff can replace or follow: saying so
    takes a marker that diffs here do not have.

    Raises:
        UserError: naming patch, file and hunk: lines differ from what the diff replaces,
            or the diff is in the file already.
    """
    *lines, tail = text.split("\n")
    already = _applied(lines, diff)
    # Added lines have nothing that must be there before: they would fit twice.
    twice = already and not any(hunk.old for hunk in diff.hunks)
    for number, hunk in enumerate(diff.hunks, 1):
        found = tuple(lines[hunk.first : _end(hunk)])
        if found == hunk.old and _end(hunk) <= len(lines) and not twice:
            continue
        where = f"{patch}, {diff.path}, hunk {number}, line {hunk.start}"
        if already:
            raise UserError("a patch is in the file already", where=where,
                            expected=_shown(hunk.old) or "the file without the patch",
                            got=_shown(hunk.new) or "the file with it", next_step="apply it once")
        raise UserError("a patch does not fit", where=where,
                        expected=_shown(hunk.old) or f"at least {hunk.start} lines",
                        got=_shown(found) or f"a file of {len(lines)} whole lines",
                        next_step="write the patch anew for this file")
    result: list[str] = []
    done = 0
    for hunk in diff.hunks:
        result += [*lines[done : hunk.first], *hunk.new]
        done = _end(hunk)
    return "\n".join([*result, *lines[done:], tail])


def _applied(lines: list[str], diff: FileDiff) -> bool:
    """Whether every hunk's new lines stand where they would after it.

    A diff that only removes leaves nothing to know it by.
    """
    moved = 0
    for hunk in diff.hunks:
        first = hunk.first + moved
        if tuple(lines[first : first + len(hunk.new)]) != hunk.new:
            return False
        moved += len(hunk.new) - len(hunk.old)
    return any(hunk.new for hunk in diff.hunks)


def _shown(lines: tuple[str, ...]) -> str:
    """Lines for a message; a carriage return, which would not be seen, is written out."""
    return "\n            ".join(lines).replace("\r", "\\r")
