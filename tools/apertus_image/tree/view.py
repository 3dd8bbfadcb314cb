"""Several trees seen as the one file system that their layers make."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["View"]

MOST_LINKS = 40  # as Linux: more are a loop


class View:
    """Image paths looked up in layered trees; the later tree wins.

    Args:
        roots: the trees, lowest layer first.
    """

    def __init__(self, roots: Iterable[Path]) -> None:
        self.roots = [Path(root) for root in roots]
        self._found: dict[str, tuple[Path, os.stat_result] | None] = {"/": None}

    def _lookup(self, path: str) -> tuple[Path, os.stat_result] | None:
        """The physical entry at a path, links not followed."""
        if path not in self._found:
            self._found[path] = None
            for root in reversed(self.roots):
                physical = Path(f"{root}{path}")
                try:
                    self._found[path] = (physical, physical.lstat())
                    break
                except (FileNotFoundError, NotADirectoryError):
                    continue
        return self._found[path]

    def resolve(self, path: str) -> str | None:
        """The path with every link followed inside the image; None if it leads nowhere.

        Raises:
            UserError: links lead in a circle.
        """
        done, left, links = "", [part for part in path.split("/") if part], 0
        while left:
            part = left.pop(0)
            if part in (".", ".."):
                done = posixpath.dirname(done) if part == ".." else done
                continue
            found = self._lookup(f"{done}/{part}")
            if found is None:
                return None
            physical, status = found
            if not stat.S_ISLNK(status.st_mode):
                done = f"{done}/{part}"
                continue
            links += 1
            if links > MOST_LINKS:
                raise UserError("links lead in a circle", where=path)
            target = str(physical.readlink())
            done = "" if target.startswith("/") else done
            left = [piece for piece in target.split("/") if piece] + left
        return done or "/"

    def physical(self, path: str) -> Path | None:
        """Where the file or folder at a path lies on disk, links followed."""
        real = self.resolve(path)
        if real is None or real == "/":
            return None
        found = self._lookup(real)
        return found[0] if found else None

    def kind(self, path: str) -> str | None:
        """`file`, `dir` or `link` for what lies at a path, its last link not followed."""
        parent = self.resolve(posixpath.dirname(path))
        found = self._lookup(posixpath.join(parent, posixpath.basename(path))) if parent else None
        if not found:
            return None
        mode = found[1].st_mode
        return "link" if stat.S_ISLNK(mode) else "dir" if stat.S_ISDIR(mode) else "file"

    def names(self, folder: str) -> list[str]:
        """The names in a folder, over all trees, sorted by bytes."""
        real = self.resolve(folder)
        if real is None:
            return []
        found: set[str] = set()
        for root in self.roots:
            physical = Path(f"{root}{real}")
            if physical.is_dir() and not physical.is_symlink():
                found.update(child.name for child in physical.iterdir())
        return sorted(found, key=os.fsencode)

    def files(self) -> Iterator[tuple[str, Path]]:
        """Every regular file as the image has it: (path, where it lies)."""
        seen: set[str] = set()
        for root in reversed(self.roots):
            for folder, _, names in os.walk(root):
                base = folder[len(str(root)) :]
                for name in names:
                    path = f"{base}/{name}"
                    if path not in seen:
                        seen.add(path)
                        physical = Path(folder, name)
                        if physical.is_file() and not physical.is_symlink():
                            yield path, physical
