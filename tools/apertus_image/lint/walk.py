"""One walk over all trees, so that every check sees each path once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Entry", "walk"]


@dataclass(frozen=True)
class Entry:
    """A regular file or a link, as the image has it.

    Attributes:
        path: image path.
        physical: where it lies.
        target: a link's target as it stands, None for files.
    """

    path: str
    physical: Path
    target: str | None = None


def walk(roots: Iterable[Path]) -> Iterator[Entry]:
    """Every regular file and link of layered trees; of one path, the later tree's.

    Args:
        roots: the trees, lowest layer first.
    """
    seen: set[str] = set()
    for root in reversed([str(root) for root in roots]):
        folders = [root]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    path = entry.path[len(root) :]
                    if path not in seen:
                        seen.add(path)
                        target = os.readlink(entry.path) if entry.is_symlink() else None
                        yield Entry(path, Path(entry.path), target)
