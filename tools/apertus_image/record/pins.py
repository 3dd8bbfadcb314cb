"""Digests of what pins the inputs: flake.lock, every tracked file of nix/pins and nix/patches."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.record.source import git

__all__ = ["FLAKE_LOCK", "digests", "over_all"]

FLAKE_LOCK = "flake.lock"
FOLDERS = ("nix/pins", "nix/patches")


def digests(project: Path) -> dict[str, str]:
    """Path below the project -> `sha256:…`, sorted; only files that git tracks, as Nix sees.

    Raises:
        UserError: a file is gone, or the project is no git checkout.
    """
    tracked = git(project, "ls-files", "-z", "--", FLAKE_LOCK, *FOLDERS).split("\0")
    found = {}
    for path in sorted(filter(None, tracked)):
        try:
            found[path] = f"sha256:{hashlib.sha256((project / path).read_bytes()).hexdigest()}"
        except OSError as error:
            raise UserError("a file that pins inputs cannot be read", where=project / path,
                            got=error.strerror, next_step=f"git checkout {path}") from error
    if FLAKE_LOCK not in found:
        raise UserError("the flake's lock is missing", where=project / FLAKE_LOCK,
                        next_step="git checkout flake.lock")
    return found


def over_all(files: Mapping[str, str]) -> str:
    """One digest over all files: of the list that `sha256sum` would write, sorted by path."""
    listed = "".join(f"{digest.removeprefix('sha256:')}  {path}\n"
                     for path, digest in sorted(files.items()))
    return f"sha256:{hashlib.sha256(listed.encode()).hexdigest()}"
