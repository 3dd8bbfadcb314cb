"""The licence of every pinned file, by what the file itself says."""

from __future__ import annotations

import re
import tempfile
import zipfile
from pathlib import Path

from cyclonedx.spdx import fixup_id, is_expression

from apertus_image.debian.deb import data_members
from apertus_image.record.licence import Licences, of_copyright, of_metadata

__all__ = ["of_deb", "of_wheel", "spdx"]

METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
LINK = re.compile(r"(?:\.\./)*([^/]+)")


def spdx(licences: Licences) -> bool:
    """Whether a licence is known by a name of SPDX's."""
    return bool(licences.expression and is_expression(licences.expression)) or any(
        fixup_id(name) for name in licences.names)


def of_wheel(file: Path) -> Licences:
    """Of a wheel that is not installed."""
    with zipfile.ZipFile(file) as archive, tempfile.NamedTemporaryFile() as scratch:
        for name in archive.namelist():
            if METADATA.fullmatch(name):
                scratch.write(archive.read(name))
                scratch.flush()
                return of_metadata(Path(scratch.name))
    return Licences(unknown="it has no METADATA")


def of_deb(file: Path, package: str) -> Licences:
    """Of a package that is not unpacked."""
    path = f"usr/share/doc/{package}/copyright"
    for info, content in data_members(file):
        name = info.name.removeprefix("./")
        if name == path and content is not None:
            with tempfile.NamedTemporaryFile() as scratch:
                scratch.write(content.read())
                scratch.flush()
                return of_copyright(Path(scratch.name))
        if info.issym() and name in (path, path.rpartition("/")[0]):
            shared = [each for each in LINK.findall(info.linkname) if each != "copyright"]
            return Licences(unknown=f"its copyright file is {shared[0]}'s" if shared
                            else "its copyright file is a link")
    return Licences(unknown="it has no copyright file")
