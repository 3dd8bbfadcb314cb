"""Packages unpacked into one merged-usr tree, the same whoever does it (case 43).

Owners are not looked at; of the modes, only whether the owner may execute stays, for the
store keeps no more. Set-id bits are dropped and reported. Device nodes are refused.
"""

from __future__ import annotations

import hashlib
import posixpath
import shutil
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from apertus_image.debian.deb import data_members
from apertus_image.errors import UserError, raise_all

__all__ = ["Root", "merged_usr"]

MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


def merged_usr(path: str) -> str:
    """Where a path of a package lies in a merged-usr root: `lib/x` -> `usr/lib/x`."""
    head, slash, rest = path.partition("/")
    return f"usr/{head}/{rest}" if head in MERGED and slash else path


@dataclass
class Root:
    """A root file system on its way.

    Attributes:
        folder: where it lies.
        left_out: patterns of paths that are not unpacked; `*` crosses folders.
        kept: patterns that are unpacked although `left_out` has them.
        origins: image path -> package that brought it.
        hashes: image path -> SHA-256 of a file's content.
        listed: package -> the paths its .deb has, for dpkg's database.
        privileged: what had a set-id bit, one line each.
    """

    folder: Path
    left_out: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    origins: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    listed: dict[str, list[str]] = field(default_factory=dict)
    privileged: list[str] = field(default_factory=list)

    def unpack(self, package: str, deb: Path) -> None:
        """Unpack one package.

        Raises:
            UserError: listing paths of its that another package has with other content,
                that lead out of the root or through a link, and device nodes.
        """
        problems: list[UserError] = []
        listed = self.listed.setdefault(package, ["/."])
        for info, data in data_members(deb):
            name = posixpath.normpath(info.name)
            if name == ".":
                continue
            place = f"{package}: {info.name}"
            if name.startswith(("/", "../")) or name == "..":
                problems.append(UserError("a path leads out of the root", where=place))
                continue
            path = merged_usr(name)
            if info.mode & 0o6000 and not info.issym():
                self.privileged.append(f"{package}: /{path} had mode {info.mode & 0o7777:04o}")
            if self._left_out(path):
                continue
            listed.append(f"/{path}")
            if problem := self._through_link(path, place):
                problems.append(problem)
            elif info.isdir():
                problems += self._folder(package, path)
            elif info.isreg():
                problems += self._file(package, path, data.read(), bool(info.mode & 0o100))
            elif info.issym():
                problems += self.link(package, path, info.linkname)
            elif info.islnk():
                problems += self._hard_link(package, path, info, place)
            else:
                problems.append(UserError("a package has a device node or the like", where=place,
                                          expected="files, folders and links"))
        raise_all(problems, f"{package} cannot be unpacked: {{n}} faults")

    def _left_out(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self.left_out) and not any(
            fnmatchcase(path, pattern) for pattern in self.kept
        )

    def _through_link(self, path: str, place: str) -> UserError | None:
        parent = self.folder
        for part in path.split("/")[:-1]:
            parent = parent / part
            if parent.is_symlink() or parent.is_file():
                kind = "link" if parent.is_symlink() else "file"
                return UserError(f"a path leads through a {kind} of another package", where=place,
                                 got=f"/{parent.relative_to(self.folder)} is a {kind}")
        return None

    def _folder(self, package: str, path: str) -> list[UserError]:
        target = self.folder / path
        if not target.is_dir() and (target.is_symlink() or target.exists()):
            return [self._conflict(package, path)]
        target.mkdir(parents=True, exist_ok=True)
        return []

    def _hard_link(
        self, package: str, path: str, info: tarfile.TarInfo, place: str
    ) -> list[UserError]:
        source = merged_usr(posixpath.normpath(info.linkname))
        # A path of this root alone: the file that a link leads to might be the builder's own.
        if f"/{source}" not in self.origins or self._through_link(source, place):
            return [UserError("a hard link leads to no file of the packages", where=place,
                              got=info.linkname)]
        original = self.folder / source
        if original.is_symlink():
            return self.link(package, path, str(original.readlink()))
        return self._file(package, path, original.read_bytes(), bool(info.mode & 0o100))

    def _file(self, package: str, path: str, text: bytes, executable: bool) -> list[UserError]:
        target = self.folder / path
        digest = hashlib.sha256(text).hexdigest()
        if target.is_symlink() or target.exists():
            if self.hashes.get(f"/{path}") == digest:
                return []
            return [self._conflict(package, path)]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
        target.chmod(0o755 if executable else 0o644)
        self.origins[f"/{path}"] = f"deb:{package}"
        self.hashes[f"/{path}"] = digest
        return []

    def link(self, package: str, path: str, target: str) -> list[UserError]:
        """Make a symbolic link; the same link twice is one."""
        link = self.folder / path
        if link.is_symlink() and str(link.readlink()) == target:
            return []
        if link.is_symlink() or link.exists():
            return [self._conflict(package, path)]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
        self.origins[f"/{path}"] = f"deb:{package}"
        return []

    def write(self, path: str, text: str | bytes) -> None:
        """Write a generated file, in place of a package's if one has it."""
        data = text.encode() if isinstance(text, str) else text
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        target.chmod(0o644)
        self.origins[f"/{path}"] = "generated"
        self.hashes[f"/{path}"] = hashlib.sha256(data).hexdigest()

    def remove(self, patterns: Iterable[str]) -> None:
        """Remove what matches, files or folders."""
        for pattern in patterns:
            for path in sorted(self.folder.glob(pattern)):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def _conflict(self, package: str, path: str) -> UserError:
        other = self.origins.get(f"/{path}", "a folder of other packages")
        return UserError("two packages bring one path", where=f"/{path}",
                         expected="one of them, or equal content",
                         got=f"{other.removeprefix('deb:')} and {package}",
                         next_step="leave one package out of nix/pins/userland.packages")
