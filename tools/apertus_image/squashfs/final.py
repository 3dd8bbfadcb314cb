"""Final names: what stands under one is whole, and its record and checksum lie beside it.

A killed export leaves nothing under the final name; the next one to the same name removes what
it left, and two at a time do not harm each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from apertus_image.errors import UserError
from apertus_image.place.whole import synced

__all__ = ["name_it", "remove_left", "sidecars", "workplace"]

AT_FDCWD, RENAME_NOREPLACE = -100, 1  # fcntl.h, stdio.h
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


@contextlib.contextmanager
def workplace(final: Path) -> Iterator[Path]:
    """A folder beside the final name, and a lock beside that while its export lives.

    The kernel frees the lock of a killed export, which is how the next one knows that the
    folder is nobody's. The lock comes first, so that no folder is without one.

    Raises:
        UserError: the target cannot be written.
    """
    lock, held = _locked(final)
    work = lock.with_suffix(".part")
    with held:
        try:
            work.mkdir()
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
            lock.unlink(missing_ok=True)


def _locked(final: Path) -> tuple[Path, TextIO]:
    while True:
        lock = final.parent / f".{final.name}.{secrets.token_hex(6)}.lock"
        try:
            held = lock.open("x")
        except OSError as error:
            raise UserError("the target cannot be written", where=final.parent, got=error.strerror,
                            next_step="choose another folder with -o") from error
        fcntl.flock(held, fcntl.LOCK_EX)
        if lock.exists():
            return lock, held
        held.close()  # another export took it for a killed one's before it was locked


def remove_left(final: Path) -> None:
    """Remove what killed exports to this name left, but not what is at work."""
    for left in final.parent.glob(f".{glob_escape(final.name)}.*.lock"):
        try:
            with left.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left.with_suffix(".part"), ignore_errors=True)
                left.unlink(missing_ok=True)
        except (BlockingIOError, FileNotFoundError, PermissionError):
            continue


def glob_escape(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def name_it(part: Path, final: Path, *, replace: bool, mode: int | None = None) -> bool:
    """Give a whole file its name; False if there is another, which stays.

    Args:
        mode: permission bits; None for what the umask leaves of 0644.

    Raises:
        UserError: the file system cannot do that without the risk of replacing another's.
    """
    part.chmod(0o644 & ~_umask() if mode is None else mode)
    synced(part)
    if replace:
        part.replace(final)
        return True
    try:
        os.link(part, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        return _renamed(part, final)
    return True


def _renamed(part: Path, final: Path) -> bool:
    """Where there are no hard links: renameat2(2), which Python has no name for."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not libc.renameat2(AT_FDCWD, os.fsencode(part), AT_FDCWD, os.fsencode(final),
                          RENAME_NOREPLACE):
        return True
    if ctypes.get_errno() == errno.EEXIST:
        return False
    raise UserError("the file system can give no name without replacing another file's",
                    where=final, got=os.strerror(ctypes.get_errno()),
                    next_step="choose another folder with -o, or say --force")


def sidecars(final: Path, texts: Mapping[str, str]) -> None:
    """Write FINAL+suffix for each suffix, each by rename, and make all names last."""
    with workplace(final) as work:
        for suffix, text in texts.items():
            part = work / f"beside{suffix}"
            part.write_text(text)
            part.chmod(0o644 & ~_umask())
            synced(part)
            part.replace(f"{final}{suffix}")
    synced(final.parent)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
