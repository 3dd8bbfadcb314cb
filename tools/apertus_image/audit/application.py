"""Whether the code in an image is a checkout's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from apertus_image.audit.installed import Application
from apertus_image.release.git import SUBMODULE, Git
from apertus_image.tree.manifest import Entry

__all__ = ["differing"]


def differing(checkout: Path, application: Application) -> list[str]:
    """The files that differ, `PATH (why)`, sorted by path.

    What git does not track is not looked for: it is in no image either.
    """
    found = {path: why for path, entry in application.entries.items()
             if (why := _why(checkout / path, entry))}
    tracked = _tracked(Git(checkout)) if (checkout / ".git").exists() else ()
    found |= {path: "not in the image" for path in tracked
              if path not in application.entries and os.path.lexists(checkout / path)}
    return [f"{path} ({why})" for path, why in sorted(found.items())]


def _why(file: Path, entry: Entry) -> str:
    """Why a file is not the image's; empty if it is."""
    if not os.path.lexists(file):
        return "not in the checkout"
    if file.is_symlink():
        return "" if entry.target == os.readlink(file) else "another link"
    if entry.type != "file" or not file.is_file():
        return "of another type"
    if bool(entry.executable) != os.access(file, os.X_OK):
        return "executable in one"
    with file.open("rb") as data:
        same = hashlib.file_digest(data, "sha256").hexdigest() == entry.sha256
    return "" if same else "other content"


def _tracked(git: Git) -> Iterator[str]:
    """Paths of the checked out commit, those of submodules too."""
    for entry in git.tree(git.head()):
        if entry.mode != SUBMODULE:
            yield entry.path
        elif inner := git.submodule(entry.path):
            yield from (f"{entry.path}/{path}" for path in _tracked(inner))
