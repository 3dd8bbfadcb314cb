"""An EDF and those it is based on: parsed, with the line each key stands in."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apertus_image.edf.finding import DOCS, Finding
from apertus_image.errors import UserError

__all__ = ["DEPTH", "Edf", "Key", "flat", "load", "parse"]

DEPTH = 10
"""Levels of base_environment that the Container Engine follows (edf.md)."""

HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")
PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
ASSIGNED = re.compile(rf"\s*({PART}(?:\s*\.\s*{PART})*)\s*=")


@dataclass(frozen=True)
class Key:
    """Where a key is written.

    Attributes:
        line: from 1.
        table: the header above it, dotted; empty at the top.
        written: the key as it stands left of the equals sign, dotted.
    """

    line: int
    table: str
    written: str


@dataclass(frozen=True)
class Edf:
    """A parsed EDF.

    Attributes:
        path: as it was given.
        data: the TOML.
        keys: dotted key -> where it is written; the first place if there are several.
        bases: what base_environment names and could be read, nearest first.
        findings: what was wrong with reading it.
    """

    path: Path
    data: dict[str, Any]
    keys: dict[str, Key] = field(default_factory=dict)
    bases: tuple[Edf, ...] = ()
    findings: tuple[Finding, ...] = ()

    def line(self, key: str) -> int | None:
        """The line of a key, or of the table or list that it is in."""
        key = re.sub(r"\[\d+\]$", "", key)
        found = self.keys.get(key)
        return found.line if found else None

    def chain(self) -> Iterator[Edf]:
        """This EDF, then its bases, the last named first: what comes first decides."""
        yield self
        for base in self.bases:
            yield from base.chain()

    def effective(self, key: str, default: Any = None) -> Any:
        """A top-level value: this EDF's, or the nearest base's ("scalars override")."""
        return next((edf.data[key] for edf in self.chain() if key in edf.data), default)

    def merged(self, table: str) -> dict[str, Any]:
        """A table over those of the bases, its sub-tables flattened to dotted keys."""
        result: dict[str, Any] = {}
        for edf in self.chain():
            result = flat(edf.data.get(table)) | result
        return result


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value, however the tables are nested; nothing for what is no table."""
    if not isinstance(value, dict):
        return {}
    result: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            result |= flat(inner, f"{prefix}{name}.")
        else:
            result[f"{prefix}{name}"] = inner
    return result


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Edf:
    """Read an EDF and what it is based on.

    Raises:
        UserError: the file cannot be read, or is no TOML.
    """
    return _load(path, environment, ())


def parse(text: str, path: Path) -> Edf:
    """An EDF without its bases.

    Raises:
        UserError: it is no TOML.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError("not TOML", where=path, got=error,
                        next_step="mend the line; https://toml.io has the grammar") from error
    return Edf(path, data, _keys(text))


def _load(path: Path, environment: Mapping[str, str], above: tuple[Path, ...]) -> Edf:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("the EDF cannot be read", where=path,
                        got=getattr(error, "strerror", None) or error) from error
    edf = parse(text, path)
    named = edf.data.get("base_environment", [])
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    above = (*above, path.resolve())
    bases, findings = [], []

    def fault(severity: str, what: str, next_step: str) -> None:
        findings.append(Finding(
            severity, "base_environment", what, f"base_environment is followed for at most {DEPTH} "
            f"levels, each a name on EDF_PATH or a path ({DOCS}/edf.md)", next_step, str(path),
            edf.line("base_environment")))

    for name in reversed([each for each in names if isinstance(each, str)]):
        found = _find(name, environment)
        if found is None:
            fault("warning", f"the base environment {name!r} is not on this machine, so what it "
                  "sets is not known here", "lint where EDF_PATH (default ~/.edf) holds it")
        elif found.resolve() in above:
            fault("error", f"{name!r} is based on itself", "break the circle")
        elif len(above) > DEPTH:
            fault("error", f"{name!r} is more than {DEPTH} levels deep", "merge some of the levels")
        else:
            bases.append(_load(found, environment, above))
    return Edf(path, edf.data, edf.keys, tuple(bases), tuple(findings))


def _find(name: str, environment: Mapping[str, str]) -> Path | None:
    """The file that a base's name means: a path, or NAME.toml on EDF_PATH."""
    if name.startswith(("/", "./")):
        return Path(name) if Path(name).is_file() else None
    home = environment.get("HOME", "/nonexistent")
    for folder in (environment.get("EDF_PATH") or f"{home}/.edf").split(":"):
        file = Path(folder, f"{name}.toml")
        if file.is_file():
            return file
    return None


def _keys(text: str) -> dict[str, Key]:
    """Where keys are written, line by line.

    tomllib does not say. A line inside a string of several lines may look like a key; that
    costs a wrong line number in a finding and nothing else.
    """
    keys: dict[str, Key] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := HEADER.fullmatch(line.rstrip("\r")):
            table = _dotted(header[1])
            keys.setdefault(table, Key(number, table, ""))
        elif assigned := ASSIGNED.match(line):
            written = _dotted(assigned[1])
            keys.setdefault(f"{table}.{written}" if table else written,
                            Key(number, table, written))
    return keys


def _dotted(text: str) -> str:
    return ".".join(part.strip("\"'") for part in re.findall(PART, text))
