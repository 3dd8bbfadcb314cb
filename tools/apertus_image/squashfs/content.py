"""The bytes of files, read from where they lie or handed to a pipe."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator

from apertus_image.errors import UserError
from apertus_image.squashfs.node import Node, Piece

__all__ = ["contents", "send", "sha256_of", "widen", "write_all"]

CHUNK = 1 << 20
ZEROS = bytes(CHUNK)
REPAIR = "nix-store --verify --check-contents, then tools/build; or fetch the image again"


def contents(piece: Piece) -> Iterator[bytes]:
    """The bytes of a piece, in chunks.

    Raises:
        UserError: the file cannot be read, or has become shorter.
    """
    done = 0
    with _opened(piece) as file:
        while done < piece.length:
            wanted = min(CHUNK, piece.length - done)
            if file is not None:
                data = os.pread(file, wanted, piece.offset + done)
            elif piece.data is not None:
                data = piece.data[done : done + wanted]
            else:
                data = ZEROS[:wanted]
            if not data:
                raise _shorter(piece, done)
            done += len(data)
            yield data


def sha256_of(node: Node, progress: Callable[[int], None] = lambda _bytes: None) -> str:
    """SHA-256 (hex) of a file's bytes, read now unless its layer has been read for it already.

    Raises:
        UserError: as for `contents`.
    """
    if node.sha256:
        return node.sha256
    digest = hashlib.sha256()
    for piece in node.pieces:
        for data in contents(piece):
            digest.update(data)
            progress(len(data))
    return digest.hexdigest()


def send(piece: Piece, pipe: int) -> None:
    """Write a piece into a pipe; a file's pages are handed over without copying them.

    Raises:
        UserError: the file cannot be read, or has become shorter.
        BrokenPipeError: nobody reads the pipe any more.
    """
    done = 0
    if piece.file:
        with _opened(piece) as file:
            while done < piece.length:
                try:
                    moved = os.splice(file, pipe, min(CHUNK, piece.length - done),
                                      offset_src=piece.offset + done)
                except OSError as error:
                    if error.errno not in (errno.EINVAL, errno.ENOSYS):
                        raise
                    break  # a file system that cannot: copy the rest
                if not moved:
                    raise _shorter(piece, done)
                done += moved
    rest = piece._replace(length=piece.length - done, offset=piece.offset + done)
    for data in contents(rest):
        write_all(pipe, data)


def widen(pipe: int) -> None:
    """Let a pipe hold as much as a user may ask for, so that its two ends wait less."""
    with contextlib.suppress(OSError):  # it is only faster so
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, CHUNK)


def write_all(pipe: int, data: bytes) -> None:
    """Write bytes, however many times the kernel wants to be asked."""
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]


@contextlib.contextmanager
def _opened(piece: Piece) -> Iterator[int | None]:
    """The piece's file, None if it has none; what fails in reading it is told by its name."""
    file = None
    try:
        if piece.file and piece.length:
            file = os.open(piece.file, os.O_RDONLY | os.O_CLOEXEC)
        yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError("a file of the image cannot be read", where=piece.file,
                        got=error.strerror, next_step=REPAIR) from error
    finally:
        if file is not None:
            os.close(file)


def _shorter(piece: Piece, got: int) -> UserError:
    return UserError("a file of the image became shorter", where=piece.file,
                     expected=f"{piece.length} bytes", got=f"{got} bytes", next_step=REPAIR)
