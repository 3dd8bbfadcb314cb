"""What a pinned file brings for the loader's cache and the CUDA toolkit, without installing it."""

from __future__ import annotations

import hashlib
import re
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from apertus_image.debian.deb import data_members
from apertus_image.elf.reader import read

__all__ = ["Libraries"]

# Below a folder that the loader searches: nvidia/*/lib of site-packages (elf.cuda writes them).
OF_WHEEL = re.compile(r"(?:[^/]+\.data/(?:purelib|platlib)/)?(nvidia/[^/]+/lib/[^/]*\.so[^/]*)")
HEADER = re.compile(r"(?:[^/]+\.data/(?:purelib|platlib)/)?nvidia/[^/]+/include/cuda\.h")
CONFIG = re.compile(r"/etc/ld\.so\.conf(\.d/.*)?")
NAME = re.compile(r"(lib|ld-).*\.so.*")

Fingerprint = frozenset[tuple]


class Libraries:
    """What pins bring, each looked into once.

    Args:
        physical: where a store path lies on this machine.
    """

    def __init__(self, physical: Callable[[str], Path] = Path) -> None:
        self._physical = physical
        self._known: dict[tuple[str, bool], Fingerprint | None] = {}

    def cache(self, pin: Mapping[str, Any]) -> Fingerprint | None:
        """All that /etc/ld.so.cache could say of a package; None where its file is not here.

        Args:
            pin: an entry of a lock with `path`, its store path.
        """
        return self._found(pin, bytes_count=True)

    def toolkit(self, pin: Mapping[str, Any]) -> Fingerprint | None:
        """All that the completion of the CUDA toolkit could take from a package."""
        return self._found(pin, bytes_count=False)

    def _found(self, pin: Mapping[str, Any], *, bytes_count: bool) -> Fingerprint | None:
        key = pin["path"], bytes_count
        if key not in self._known:
            file = self._physical(pin["path"])
            if not file.is_file():
                self._known[key] = None
            elif pin.get("file", "").endswith(".whl"):
                self._known[key] = _wheel(file, bytes_count)
            else:
                self._known[key] = _deb(file)
        return self._known[key]


def _wheel(file: Path, bytes_count: bool) -> Fingerprint:
    """Names of libraries where the loader looks, and their checksums where the bytes count."""
    found = set()
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if match := OF_WHEEL.fullmatch(member.filename):
                found.add((match[1], member.CRC if bytes_count else 0))
            elif HEADER.fullmatch(member.filename):
                found.add(("cuda.h", member.CRC))
    return frozenset(found)


def _deb(file: Path) -> Fingerprint:
    """Libraries by their names and SONAMEs, which is all that a cache holds, and its config."""
    found = set()
    with tempfile.NamedTemporaryFile() as scratch:
        for info, content in data_members(file):
            path = "/" + info.name.removeprefix("./").strip("/")
            name = path.rpartition("/")[2]
            if info.issym() and (NAME.fullmatch(name) or path.count("/") == 1):
                found.add((path, "link", info.linkname))
            elif info.islnk() and NAME.fullmatch(name):
                found.add((path, "hard", info.linkname))
            elif content is None:
                continue
            elif CONFIG.fullmatch(path):
                found.add((path, "config", hashlib.sha256(content.read()).hexdigest()))
            elif NAME.fullmatch(name):
                scratch.seek(0)
                scratch.truncate()
                scratch.write(content.read())
                scratch.flush()
                elf = read(Path(scratch.name), versions=False)
                found.add((path, "file", elf and (elf.machine, elf.dynamic, elf.soname)))
    return frozenset(found)
