"""Builder: a user's code at its place in the image.

    python3 -m apertus_image.application.build SPEC OUT MANIFEST

Files are copied as they are; nothing is compiled, installed or run. Spec: {"source": store
path of a prepared or bare tree}.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from apertus_image.application.prepared import faults, read
from apertus_image.errors import UserError, raise_all, run_builder
from apertus_image.tree import manifest

__all__ = ["ORIGIN", "build"]

ORIGIN = "source"


def build(spec: dict, out: Path, manifest_file: Path) -> None:
    """Copy the code below `out`, and write the manifest.

    Raises:
        UserError: listing every name that an image cannot hold; nothing there; a special file.
    """
    tree, at = read(Path(spec["source"]))
    entries = list(_leaves(tree))
    raise_all(faults(((path, target) for path, _, target in entries), at),
              "{n} names of the application's source cannot be in an image")
    if not entries:
        raise UserError("the application's source holds no file", where=at)
    root = Path(f"{out}{at}")
    for path, executable, target in entries:
        to = root / path
        to.parent.mkdir(parents=True, exist_ok=True)
        if target is not None:
            to.symlink_to(target)
        else:
            shutil.copyfile(tree / path, to)
            to.chmod(0o755 if executable else 0o644)
    manifest.write(manifest.scan(out, ORIGIN), manifest_file)


def _leaves(tree: Path) -> Iterator[tuple[str, bool, str | None]]:
    """(path, executable, link's target) of everything but folders, sorted."""
    for folder, names, files in os.walk(tree):
        names.sort()
        for name in sorted([*names, *files]):
            full = Path(folder, name)
            mode = full.lstat().st_mode
            path = str(full.relative_to(tree))
            if stat.S_ISLNK(mode):
                yield path, False, os.readlink(full)
            elif stat.S_ISREG(mode):
                yield path, bool(mode & stat.S_IXUSR), None
            elif not stat.S_ISDIR(mode):
                raise UserError("the source holds what is no file, link or folder", where=path)


if __name__ == "__main__":
    run_builder(build)
