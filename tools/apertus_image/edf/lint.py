"""Linting an EDF against what is known of the Container Engine, Pyxis, Enroot and CSCS."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from apertus_image.edf import environment as env
from apertus_image.edf import fields, hooks, image, mounts, variables
from apertus_image.edf.document import Edf, load
from apertus_image.edf.finding import DOCS, Finding

__all__ = ["lint"]

ORDER = {"error": 0, "warning": 1, "note": 2}


def lint(path: Path, known: Mapping[str, str] = os.environ,
         unsquashfs: Path | None = None) -> list[Finding]:
    """All findings of an EDF and of those it is based on, the worst first.

    Args:
        path: the EDF.
        known: the variables that srun would be called with.
        unsquashfs: the program to look into the image with, None for not looking.

    Raises:
        UserError: the file cannot be read, or is no TOML.
    """
    edf = load(path, known)
    found = list(_findings(edf, known))
    found += [replace(each, file=str(path)) for each in _libcudart(edf, known, unsquashfs)]
    return sorted(found, key=lambda each: (ORDER[each.severity], each.line or 0, each.key))


def _findings(edf: Edf, known: Mapping[str, str]) -> Iterator[Finding]:
    yield from edf.findings
    for each in (*fields.check(edf), *hooks.check(edf), *env.check(edf),
                 *mounts.check(edf, known), *image.check(edf, known),
                 *_variables(edf, known)):
        yield replace(each, file=str(edf.path))
    for base in edf.bases:
        # What a base lacks, this EDF may bring: only what it says is judged.
        yield from (each for each in _findings(base, known) if each.line is not None)


def _variables(edf: Edf, known: Mapping[str, str]) -> Iterator[Finding]:
    for key, value in _strings(edf.data):
        for severity, what, why, next_step in variables.faults(value, known):
            yield Finding(severity, key, what, why, next_step, line=edf.line(key))


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, string) of all that the engine expands."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _strings(inner, f"{key}[{number}]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _strings(inner, f"{key}.{name}" if key else name)


def _libcudart(edf: Edf, known: Mapping[str, str], unsquashfs: Path | None) -> Iterator[Finding]:
    """The unversioned library that the artifact's plugin loads."""
    if not hooks.needs_libcudart(edf):
        return
    file = image.path_of(edf, known)
    has = _holds(file, "libcudart.so", unsquashfs) if file and unsquashfs else None
    if has:
        return
    key = f"annotations.{hooks.OFI}"
    yield Finding(
        "error" if has is False else "note", key,
        "the image holds no unversioned libcudart.so" if has is False
        else "the image must hold an unversioned libcudart.so; it was not looked into",
        f"the network stack's plugin loads it by that name ({DOCS}/resource-hook.md)",
        "link it to libcudart.so.13 in the image; apertus-image has it in /usr/local/cuda",
        line=edf.line(key))


def _holds(file: Path, name: str, unsquashfs: Path) -> bool | None:
    """Whether a SquashFS file has an entry of a name; None where it cannot be read."""
    if not file.is_file():
        return None
    result = subprocess.run([str(unsquashfs), "-l", str(file)], capture_output=True,
                            env={"LC_ALL": "C"})
    if result.returncode:
        return None
    return any(line.endswith(f"/{name}".encode()) for line in result.stdout.splitlines())
