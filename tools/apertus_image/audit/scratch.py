"""A folder for whole stores and checkouts, gone afterwards, part of which may be another user's."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["give", "scratch_folder", "umask"]


@contextmanager
def scratch_folder(below: Path | None) -> Iterator[Path]:
    """A folder that others may look into.

    Args:
        below: where to make it; None for TMPDIR.

    Raises:
        UserError: it cannot be made.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="apertus-reproduce-", dir=below)).resolve()
        folder.chmod(0o755)
    except OSError as error:
        raise UserError("the scratch folder cannot be made", where=below or tempfile.gettempdir(),
                        got=error.strerror, next_step="choose another with --scratch") from error
    try:
        yield folder
    finally:
        _remove(folder)


def give(folder: Path, uid: int) -> None:
    """Make a folder and all in it another user's; links are not followed."""
    for inner, names, files in os.walk(folder):
        for name in (".", *names, *files):
            os.chown(Path(inner, name), uid, uid, follow_symlinks=False)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """This process's umask, for the length of the block."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _remove(folder: Path) -> None:
    for inner, _names, _files in os.walk(folder):
        with suppress(OSError):  # a store's folders are not to be written to
            Path(inner).chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
