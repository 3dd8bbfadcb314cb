"""Reading a .deb: an ar archive of two tar archives (deb(5))."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import zstandard

from apertus_image.errors import UserError

__all__ = ["control_files", "data_members", "open_member"]

MAGIC = b"!<arch>\n"
HEADER = 60
AGAIN = "remove the file from the store and prefetch it again"

# What decompressors and tarfile say of bytes that are not what was packed. OSError is not
# among them: it is the disk's, full or failing.
DAMAGE = (tarfile.TarError, lzma.LZMAError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile,
          EOFError, ValueError)


@contextmanager
def open_member(deb: Path, prefix: str) -> Iterator[tarfile.TarFile]:
    """Open `control.tar*` or `data.tar*` of a package as a stream.

    Args:
        prefix: `control.tar` or `data.tar`; the compression follows from the suffix.

    Raises:
        UserError: no Debian package, no such member, an unknown compression, or damage, which
            may show only while the member is read.
    """
    with deb.open("rb") as file:
        for name, size in _members(file, deb):
            if name.startswith(prefix):
                data = _Window(file, file.tell(), size)
                try:
                    with tarfile.open(fileobj=_decompressed(name, data, deb), mode="r|") as tar:
                        yield tar
                except DAMAGE as error:
                    raise UserError("a Debian package is damaged", where=f"{deb.name}, {name}",
                                    got=error, next_step=AGAIN) from error
                return
            file.seek(size + size % 2, io.SEEK_CUR)
    raise UserError("a package lacks a member", where=deb.name, expected=prefix, next_step=AGAIN)


def data_members(deb: Path) -> Iterator[tuple[tarfile.TarInfo, BinaryIO | None]]:
    """The entries of data.tar in order, with an open file for regular ones."""
    with open_member(deb, "data.tar") as tar:
        for info in tar:
            # Read here, where damage is told as such.
            yield info, io.BytesIO(tar.extractfile(info).read()) if info.isreg() else None


def control_files(deb: Path) -> dict[str, bytes]:
    """The files of control.tar by name: control, md5sums, conffiles, postinst, …"""
    with open_member(deb, "control.tar") as tar:
        return {
            info.name.removeprefix("./"): tar.extractfile(info).read()
            for info in tar
            if info.isreg()
        }


def _members(file: BinaryIO, deb: Path) -> Iterator[tuple[str, int]]:
    """(name, size) of each ar member, the file standing at its data."""
    if file.read(len(MAGIC)) != MAGIC:
        raise UserError("not a Debian package", where=deb.name, expected="an ar archive")
    end = deb.stat().st_size
    while header := file.read(HEADER):
        if len(header) < HEADER or header[58:60] != b"`\n":
            raise UserError("a Debian package is damaged", where=deb.name,
                            expected="an ar member header", got=header[:16])
        try:
            name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        except ValueError:
            size = -1
        if size < 0:
            raise UserError("a Debian package is damaged", where=deb.name,
                            expected="a name and a size", got=header[:58], next_step=AGAIN)
        if (left := end - file.tell()) < size:
            raise UserError("a Debian package is damaged", where=f"{deb.name}, {name}",
                            expected=f"{size} bytes", got=f"{left} bytes")
        yield name, size


def _decompressed(name: str, data: BinaryIO, deb: Path) -> BinaryIO:
    suffix = name.rpartition(".")[2]
    if suffix == "xz":
        return lzma.open(data)
    if suffix == "gz":
        return gzip.open(data)
    if suffix == "zst":
        return zstandard.ZstdDecompressor().stream_reader(data)
    if suffix == "tar":
        return data
    raise UserError("a package is compressed in an unknown way", where=f"{deb.name}, {name}",
                    expected="tar, tar.gz, tar.xz or tar.zst")


class _Window(io.RawIOBase):
    """A part of an open file as a file of its own."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._position = file, start, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        count = min(len(buffer), self._size - self._position)
        self._file.seek(self._start + self._position)
        data = self._file.read(count)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
