"""A group of wheels in one tree, as pypa/installer's destination.

Wheels may be installed several at a time and in any order: the first to come writes a
path, the others only tell what they would have written, and the comparison comes last.
"""

from __future__ import annotations

import io
import posixpath
import re
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from installer.destinations import WheelDestination
from installer.records import Hash, RecordEntry
from installer.scripts import Script
from installer.utils import Scheme, fix_shebang

from apertus_image.wheel.source import HashedStream
from apertus_image.wheel.waivers import Waiver, dropped

__all__ = ["Environment", "GroupTree", "WheelIntoTree"]

CHUNK = 1 << 20
FOREIGN_SHEBANG = re.compile(rb"\A#![ \t]*/\S*/pythonw?[0-9.]*(?=\s)")


@dataclass(frozen=True)
class Environment:
    """Where things lie in the image.

    Attributes:
        prefix: the environment's folder.
        python: `major.minor`.
    """

    prefix: str
    python: str

    @property
    def site_packages(self) -> str:
        return f"{self.prefix}/lib/python{self.python}/site-packages"

    @property
    def interpreter(self) -> str:
        return f"{self.prefix}/bin/python"

    def scheme(self, name: str, wheel: str) -> str:
        """The folder of one of installer's schemes (sysconfig's, as in a venv)."""
        return {
            "purelib": self.site_packages,
            "platlib": self.site_packages,
            "headers": f"{self.prefix}/include/site/python{self.python}/{wheel}",
            "scripts": f"{self.prefix}/bin",
            "data": self.prefix,
        }[name]


@dataclass(frozen=True)
class Written:
    """One file as one wheel has it."""

    wheel: str
    sha256: str
    size: int
    executable: bool


@dataclass
class GroupTree:
    """The tree that a group's wheels are installed into.

    Attributes:
        root: the tree on disk; image paths lie below it.
        files: image path -> what each wheel has for it.
        problems: paths that cannot be both a file and a folder.
    """

    root: Path
    environment: Environment
    waivers: list[Waiver]
    files: dict[str, list[Written]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)
    _claimed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, wheel: str, path: str, stream: HashedStream, executable: bool) -> None:
        """Write a file, unless another wheel did; note what this wheel has either way."""
        with self._lock:
            first = path not in self._claimed
            self._claimed.add(path)
        try:
            if first:
                target = Path(f"{self.root}{path}")
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as out:
                    while chunk := stream.read(CHUNK):
                        out.write(chunk)
                if executable:
                    target.chmod(0o755)
            else:
                while stream.read(CHUNK):
                    pass
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            self.problems.append(f"{path}: a file in {wheel}, a folder in another wheel")
            # Read to its end all the same, or its row in RECORD would be told as wrong.
            while stream.read(CHUNK):
                pass
            return
        with self._lock:
            self.files[path].append(Written(wheel, stream.sha256, stream.size, executable))

    def leaves_out(self, wheel: str, path: str) -> bool:
        """Whether a waiver leaves this wheel's file out."""
        relative = posixpath.relpath(path, self.environment.site_packages)
        return dropped(self.waivers, wheel, relative)

    def collisions(self) -> list[str]:
        """Paths that wheels bring with different bytes, both named (case 34)."""
        found = list(self.problems)
        for path in sorted(self.files):
            versions = sorted(self.files[path], key=lambda written: written.wheel)
            if len({(w.sha256, w.executable) for w in versions}) > 1:
                told = "; ".join(f"{w.wheel} has sha256 {w.sha256[:12]}"
                                 f"{', executable' if w.executable else ''}" for w in versions)
                found.append(f"{path}: {told}")
        return found


class WheelIntoTree(WheelDestination):
    """installer's destination for one wheel of a group."""

    def __init__(self, tree: GroupTree, wheel: str) -> None:
        self.tree = tree
        self.wheel = wheel
        self.paths: list[str] = []
        self.record = ""

    def write_file(self, scheme, path, stream, is_executable):
        """Write one member; scripts get the image's interpreter in their first line."""
        target = posixpath.join(self.tree.environment.scheme(scheme, self.wheel), str(path))
        if scheme == "scripts":
            # A path of the packager's machine means the same as `#!python` (case 36).
            data = FOREIGN_SHEBANG.sub(b"#!python", stream.read(), count=1)
            with fix_shebang(io.BytesIO(data), self.tree.environment.interpreter) as fixed:
                return self._put(target, HashedStream(fixed), True)
        if not isinstance(stream, HashedStream):  # installer's own additions
            stream = HashedStream(stream)
        return self._put(target, stream, is_executable)

    def write_script(self, name, module, attr, section):
        """Write a launcher for an entry point."""
        script = Script(name, module, attr, section)
        name, data = script.generate(self.tree.environment.interpreter, "posix")
        target = posixpath.join(self.tree.environment.scheme("scripts", self.wheel), name)
        return self._put(target, HashedStream(io.BytesIO(data)), True)

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple]
    ) -> None:
        """Only note where RECORD goes: it is written once the bytecode is there."""
        folder = self.tree.environment.scheme(scheme, self.wheel)
        self.record = posixpath.join(folder, record_file_path)

    def _put(self, target: str, stream: HashedStream, executable: bool) -> RecordEntry:
        target = posixpath.normpath(target)
        if self.tree.leaves_out(self.wheel, target):
            while stream.read(CHUNK):
                pass
        else:
            self.tree.put(self.wheel, target, stream, executable)
            self.paths.append(target)
        # installer hands this back to finalize_installation, which does not look at it.
        return RecordEntry(target, Hash("sha256", ""), stream.size)
