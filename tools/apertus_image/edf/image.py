"""The image that an EDF names: which form it is, whether it lasts, whether it is what it says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apertus_image.edf.document import Edf
from apertus_image.edf.finding import DOCS, ENROOT, NOTES, PYXIS, Finding, Severity
from apertus_image.edf.variables import expand
from apertus_image.place.purge import ADVICE, purged
from apertus_image.record.beside import Beside

__all__ = ["check", "is_path", "path_of"]

STORE = ".edf_imagestore"
IDENTITY = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")
DIGEST = re.compile(r"[@:]sha256:[0-9a-f]{64}$")
HEX = re.compile(r"(?:sha256:)?([0-9a-f]{40}|[0-9a-f]{64})")

Fault = tuple[Severity, str, str, str]


def is_path(image: str) -> bool:
    """Whether Pyxis takes it for a SquashFS file: it starts with `.` or `/`."""
    return image.startswith((".", "/"))


def path_of(edf: Edf, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file of the image, if it names one and its variables are known."""
    image = edf.effective("image", "")
    image = expand(image, environment) if isinstance(image, str) else None
    return Path(image) if image and is_path(image) else None


def check(edf: Edf, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Everything about `image`."""
    image = edf.data.get("image")
    if not isinstance(image, str) or not image:
        return
    expanded = expand(image, environment)
    # What is not expanded here is judged as it stands: a path ends in .sqsh.
    known = expanded if expanded is not None else image
    if is_path(known):
        faults = _file(Path(known), relative=known.startswith("."))
    elif known.startswith("~") or known.startswith("$") and known.endswith(".sqsh"):
        faults = _unknown(known)
    else:
        faults = _reference(known, environment)
    for severity, what, why, next_step in faults:
        yield Finding(severity, "image", what, why, next_step, line=edf.line("image"))


def _unknown(image: str) -> Iterator[Fault]:
    if image.startswith("~"):
        yield ("error", "~ is not expanded, so this is taken for a registry reference",
               f"a file starts with / or . ({PYXIS})", "write ${HOME} or the absolute path")
    else:
        yield ("note", "the image's path has a variable that is not defined here",
               "so nothing is known of the file", "lint it where srun is called")


def _file(file: Path, *, relative: bool) -> Iterator[Fault]:
    if relative:
        yield ("warning", "a relative path follows the folder that srun is called in",
               f"paths that start with . are taken from the caller's folder ({DOCS}/edf.md)",
               "write the absolute path")
    if found := purged(file):
        yield ("warning", f"the image is on scratch: {found.prefix} deletes what nobody read for "
               f"{found.days} days", f"a purge takes files one by one ({NOTES}, 4)", ADVICE)
    if not file.exists():
        top = Path(*file.parts[:2])
        if relative or top.is_dir():
            yield ("error", "the image is not there", f"no such file: {file}",
                   "mend the path, or copy the image there")
        else:
            yield ("note", f"{top} is not on this machine, so the image was not looked at",
                   "a missing file stops the start", "lint it on the cluster")
        return
    if file.is_file():
        yield from _identity(file)
    else:
        yield "error", "the image is not a file", str(file), "name the .sqsh"


def _identity(file: Path) -> Iterator[Fault]:
    """The name against the records beside the file."""
    try:
        with file.open("rb") as data:
            magic = data.read(4)
    except OSError as error:
        yield ("error", f"the image cannot be read: {error.strerror}",
               "each user that starts it reads it", "publish it readable by its users")
        return
    if magic != b"hsqs":
        yield "error", "the image is not a SquashFS file", str(file), "name the .sqsh"
    named = IDENTITY.findall(file.stem)
    records = _records(file)
    source = ", ".join(records)
    size = file.stat().st_size
    sizes = {size for each in records.values() for size in _sizes(each)}
    known = {each[:12] for each in _digests(list(records.values()))}
    wrong = [each for each in named if each not in known]
    if not records:
        yield ("note", "there is no record beside the image", "so its identity was not compared",
               "keep NAME.sqsh.json, which tools/export-sqsh writes, beside it")
    elif sizes - {size}:
        yield ("error", f"the image has {size} bytes, its record says {min(sizes - {size})}",
               f"it is damaged, or the record is another's: {source}",
               "copy the image again, with its record")
    elif wrong:
        yield ("error", f"the path says {' and '.join(wrong)}, its record another identity",
               f"another image lies under this name; the record is {source}",
               "publish the image under its own name, and name that here")
    if not named:
        yield ("warning", "the image's name does not hold its identity",
               "another image can take its place, and no job would notice",
               "name it as tools/export-sqsh does: NAME-VERSION-ID.sqsh")


def _records(file: Path) -> dict[str, dict[str, Any]]:
    """File name -> record, of an export and of a release, beside an image."""
    beside = Beside.of(file)
    found = {}
    for path in (beside.export, beside.record) if beside else ():
        try:
            record = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            found[path.name] = record
    return found


def _sizes(record: dict[str, Any]) -> Iterator[int]:
    """The file's size, of an export's record and of a release's."""
    for told in (record, record.get("squashfs")):
        if isinstance(told, dict) and isinstance(told.get("size"), int):
            yield told["size"]


def _digests(value: Any) -> Iterator[str]:
    """Every digest and commit in a record."""
    if isinstance(value, str):
        if match := HEX.fullmatch(value):
            yield match[1]
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _digests(inner)


def _reference(image: str, environment: Mapping[str, str]) -> Iterator[Fault]:
    if image.endswith((".sqsh", ".squashfs")):
        yield ("error", "this is taken for a registry reference, not for a file",
               f"a file starts with / or . ({PYXIS})", "write the absolute path")
        return
    if "://" in image:
        yield ("error", f"{image.partition('://')[0]}:// is not part of a reference",
               f"it is [USER@][REGISTRY#]IMAGE[:TAG] ({DOCS}/edf.md)", "take the scheme off")
        return
    if not DIGEST.search(image):
        yield ("warning", "the reference has no digest",
               "a tag can be moved, and ranks that start later would run another image",
               "write IMAGE@sha256:DIGEST, as tools/push-image prints it")
    first, slash, _ = image.rpartition("@sha256:")[0].partition("/") if "@sha256:" in image \
        else image.partition("/")
    if slash and "#" not in image and re.search(r"[.:]", first):
        yield ("warning", f"{first} stands before a /, so Enroot 3 looks for it on its default "
               "registry", f"a registry ends with # ({DOCS}/edf.md; {ENROOT} reads both)",
               f"write {first}#{image[len(first) + 1:]}")
    yield from _imagestore(environment)


def _imagestore(environment: Mapping[str, str]) -> Iterator[Fault]:
    """Where pulled images are kept; files are not, so this is about references alone."""
    told = environment.get("EDF_IMAGESTORE")
    rule = f"pulled images are kept in EDF_IMAGESTORE, default $SCRATCH/{STORE} ({DOCS}/edf.md)"
    if told == "void":
        return
    if told and not Path(told).is_dir():
        yield ("warning", f"EDF_IMAGESTORE names {told}, which is not there", rule,
               "make the folder, unset the variable, or set it to void")
    scratch = environment.get("SCRATCH")
    place = told or (f"{scratch}/{STORE}" if scratch else None)
    if place and (found := purged(Path(place))):
        yield ("note", f"the image is kept in {place}, where files go after {found.days} days",
               rule, "publish a .sqsh on Store, or pull it again when it is gone")
