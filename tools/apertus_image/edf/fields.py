"""The keys of an EDF: which there are, of which type, and which must be said (edf.md)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from apertus_image.edf.document import Edf
from apertus_image.edf.finding import DOCS, Finding

__all__ = ["FIELDS", "check"]

TABLE = f"the table of fields ({DOCS}/edf.md)"

FIELDS: dict[str, tuple[tuple[type, ...], str]] = {
    "base_environment": ((str, list), "a string or a list of strings"),
    "image": ((str,), "a string"),
    "workdir": ((str,), "a string"),
    "entrypoint": ((bool,), "true or false"),
    "writable": ((bool,), "true or false"),
    "mounts": ((list,), "a list of strings"),
    "env": ((dict,), "a table of strings"),
    "annotations": ((dict,), "a table of strings"),
    "devices": ((list,), "a list of strings"),
}
"""Key -> (types, the type in words)."""


def check(edf: Edf) -> Iterator[Finding]:
    """Unknown keys, wrong types, and what the file must say itself."""
    for key, value in edf.data.items():
        if key not in FIELDS:
            near = difflib.get_close_matches(key, FIELDS, 1)
            yield Finding("error", key, f"{key} is no key of an EDF", f"it is not in {TABLE}",
                          f"write {near[0]}" if near else "take it out", line=edf.line(key))
        else:
            types, words = FIELDS[key]
            if not isinstance(value, types):
                yield _type(edf, key, value, words)
            elif isinstance(value, list):
                for number, member in enumerate(value):
                    if not isinstance(member, str):
                        yield _type(edf, f"{key}[{number}]", member, "a string")
    if "devices" in edf.data:
        yield Finding("note", "devices", "devices is for Sarus Suite alone",
                      f"the Container Engine of today has no such field ({DOCS}/edf.md)",
                      "leave it out where the engine is not Sarus Suite", line=edf.line("devices"))
    workdir = edf.data.get("workdir")
    if isinstance(workdir, str) and workdir and not workdir.startswith(("/", "$")):
        yield Finding("error", "workdir", f"{workdir!r} is not absolute",
                      f"it is a folder of the container ({DOCS}/edf.md)",
                      "start it with /", line=edf.line("workdir"))
    yield from _missing(edf)


def _missing(edf: Edf) -> Iterator[Finding]:
    if "image" not in edf.data and "base_environment" not in edf.data:
        yield Finding("error", "image", "neither image nor base_environment is given",
                      "the schema wants one of them (sarus-suite/raster 20f75bd, src/schema)",
                      "image = \"/path/NAME.sqsh\"")
    elif edf.effective("image", "") == "" and not any(each.findings for each in edf.chain()):
        yield Finding("warning", "image", "the image is empty, so nothing runs in a container",
                      f"an empty image means no container ({DOCS}/edf.md)",
                      "name an image", line=edf.line("image"))
    if edf.effective("entrypoint") is None:
        yield Finding("warning", "entrypoint", "entrypoint is not set",
                      "the documentation says that it is false by default, Sarus Suite's code that "
                      f"it is true ({DOCS}/edf.md; sarus-suite/raster 20f75bd)",
                      "entrypoint = false, unless the image's own entrypoint must run")


def _type(edf: Edf, key: str, value: object, words: str) -> Finding:
    return Finding("error", key, f"{value!r} is not {words}", f"it is in {TABLE}",
                   f"write {words}", line=edf.line(key))
