"""What a lint finds, and the waivers that let some of it pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from apertus_image.errors import UserError, raise_all

__all__ = ["Finding", "Report", "Waiver", "waivers"]


@dataclass(frozen=True)
class Finding:
    """One fault.

    Attributes:
        check: which check found it.
        path: image path.
        subject: what about it (a library's name, a version); waivers match on it.
        why: one sentence, with the remedy where there is one.
    """

    check: str
    path: str
    subject: str
    why: str

    def __str__(self) -> str:
        return f"{self.check}: {self.path}: {self.why}"


@dataclass(frozen=True)
class Waiver:
    """A narrow exception: patterns of path and subject (`*` crosses folders), and why.

    Attributes:
        machine: the one machine it is for, empty for all.
        loaded_from: a folder; for libraries that a program has loaded before they are
            needed. It waives only what the image has there.
    """

    check: str
    path: str
    subject: str
    reason: str
    machine: str = ""
    loaded_from: str = ""

    def covers(self, finding: Finding, exists: Callable[[str], bool]) -> bool:
        """Whether this waives the finding, in an image where these paths exist."""
        return (self.check == finding.check and fnmatchcase(finding.path, self.path)
                and fnmatchcase(finding.subject, self.subject)
                and (not self.loaded_from or exists(f"{self.loaded_from}/{finding.subject}")))


def waivers(entries: Iterable[dict[str, str]]) -> list[Waiver]:
    """The waivers of nix/pins/lint-waivers.json.

    Raises:
        UserError: listing every entry that misses a field, has a foreign one or says no
            reason, and every one so wide that it would let a whole check pass.
    """
    known = {field.name for field in fields(Waiver)}
    needed = known - {"machine", "loaded_from"}
    problems, found = [], []
    for entry in entries:
        empty = {name for name in needed if not str(entry.get(name, "")).strip()}
        if empty or entry.keys() - known:
            problems.append(UserError(
                "a lint waiver is not understood", where=f"nix/pins/lint-waivers.json: {entry}",
                expected=", ".join(sorted(needed)) + ", perhaps machine, loaded_from",
                got=", ".join(sorted(entry)), next_step="give each field a text"))
        elif not entry["path"].strip("*?/"):
            problems.append(UserError(
                "a lint waiver is too wide", where=f"nix/pins/lint-waivers.json: {entry}",
                expected="a path that names a package", got=entry["path"]))
        else:
            found.append(Waiver(**entry))
    raise_all(problems, "{n} lint waivers are wrong")
    return found


class Report:
    """Findings and counts of a lint run.

    Attributes:
        checked: check -> how many things it looked at. A check that looked at nothing
            proves nothing and is a finding itself.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.checked: dict[str, int] = {}

    def count(self, check: str, number: int) -> None:
        """Note how many things a check looked at."""
        self.checked[check] = self.checked.get(check, 0) + number

    def add(self, findings: Iterable[Finding]) -> None:
        """Note findings."""
        self.findings += findings

    def close(self, waivers: Iterable[Waiver], exists: Callable[[str], bool]) -> dict[str, Any]:
        """The result: what is left after waivers, waived counts, waivers nothing needs.

        Args:
            exists: whether the image has a path.
        """
        self.findings += [
            Finding(check, "/", "", "looked at nothing, so it proves nothing")
            for check, number in self.checked.items() if number == 0
        ]
        waivers = list(waivers)
        used = {w: [f for f in self.findings if w.covers(f, exists)] for w in waivers}
        waived = {finding for found in used.values() for finding in found}
        left = [f for f in self.findings if f not in waived]
        left += [Finding("waiver", waiver.path, waiver.subject,
                         f"a waiver of {waiver.check} for {waiver.subject} that nothing needs")
                 for waiver, found in used.items() if not found]
        return {
            "checked": dict(sorted(self.checked.items())),
            "waived": len(waived),
            "findings": sorted(left, key=lambda f: (f.check, f.path, f.subject)),
        }
