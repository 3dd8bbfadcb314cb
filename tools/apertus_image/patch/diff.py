"""Unified diffs without context, applied exactly: no fuzz, no offset (case 30).

A hunk names the lines it replaces and what they say; anything else stops it. Lines that
forges put before a file's diff (`diff --git`, `index` with ids of any length) say nothing
about its content and are not looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from apertus_image.errors import UserError

__all__ = ["FileDiff", "Hunk", "apply", "parse"]

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Hunk:
    """Lines `start` to `start + len(old) - 1` (from 1) say `old` and become `new`.

    With no old lines, the new ones come after line `start`.
    """

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class FileDiff:
    """The hunks of one file, in order; `path` without the a/ or b/."""

    path: str
    hunks: tuple[Hunk, ...]


def parse(text: str, patch: str) -> list[FileDiff]:
    """Read a diff.

    Args:
        patch: its name, for messages.

    Raises:
        UserError: it is malformed, has context lines, or makes or removes a file.
    """
    files: list[FileDiff] = []
    lines = text.split("\n")
    at = 0

    def wrong(what: str) -> UserError:
        return UserError("a patch is malformed", where=f"{patch}, line {at + 1}", got=what,
                         expected="a unified diff without context (diff -U0)")

    while at < len(lines):
        line = lines[at]
        if line.startswith("--- "):
            old, new = line[4:], lines[at + 1] if at + 1 < len(lines) else ""
            if not old.startswith("a/") or not new.startswith("+++ b/") or old[2:] != new[6:]:
                raise wrong(f"{line} / {new}")
            files.append(FileDiff(old[2:], ()))
            at += 2
        elif match := HUNK.match(line):
            if not files:
                raise wrong("a hunk before any file")
            start, removed = int(match[1]), int(match[2] or 1)
            added = int(match[4] or 1)
            body = lines[at + 1 : at + 1 + removed + added]
            minus = tuple(each[1:] for each in body if each.startswith("-"))
            plus = tuple(each[1:] for each in body if each.startswith("+"))
            if (len(minus), len(plus)) != (removed, added):
                raise wrong(f"a hunk of {len(minus)} and {len(plus)} lines, "
                            f"announced as {removed} and {added}: {line}")
            files[-1] = FileDiff(files[-1].path, (*files[-1].hunks, Hunk(start, minus, plus)))
            at += 1 + removed + added
        elif line.startswith(("+", "-", " ", "\\")):
            raise wrong(line)
        else:
            at += 1
    if not files or not all(file.hunks for file in files):
        raise wrong("no hunk")
    return files


def apply(text: str, diff: FileDiff, patch: str) -> str:
    """The file after the diff.

    Raises:
        UserError: naming patch, file and hunk: lines differ from what the diff replaces,
            or the diff is in the file already.
    """
    lines = text.split("\n")
    result: list[str] = []
    done = 0
    for number, hunk in enumerate(diff.hunks, 1):
        first = hunk.start - 1 if hunk.old else hunk.start
        found = tuple(lines[first : first + len(hunk.old)])
        if found != hunk.old or first < done:
            again = _applied(lines, diff)
            raise UserError(
                "a patch is in the file already" if again else "a patch does not fit",
                where=f"{patch}, {diff.path}, hunk {number}, line {hunk.start}",
                expected="\n            ".join(hunk.old) or "nothing to replace",
                got="\n            ".join(found) or "the end of the file",
                next_step="apply it once" if again else "write the patch anew for this wheel",
            )
        result += [*lines[done:first], *hunk.new]
        done = first + len(hunk.old)
    return "\n".join([*result, *lines[done:]])


def _applied(lines: list[str], diff: FileDiff) -> bool:
    """Whether every hunk's new lines stand where they would after it."""
    moved = 0
    for hunk in diff.hunks:
        first = (hunk.start - 1 if hunk.old else hunk.start) + moved
        if tuple(lines[first : first + len(hunk.new)]) != hunk.new:
            return False
        moved += len(hunk.new) - len(hunk.old)
    return True
