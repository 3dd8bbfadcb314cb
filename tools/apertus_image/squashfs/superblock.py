"""The first 96 bytes of a SquashFS 4.0: what a file says of itself (kernel, squashfs_fs.h)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["PADDING", "Superblock", "read"]

# magic, inodes, mkfs_time, block, fragments, compression, block_log, flags, ids, major, minor,
# root inode, bytes used; eight tables' places follow.
FORMAT = struct.Struct("<4sIIIIHHHHHHQQ")
SIZE = 96
MAGIC = b"hsqs"
PADDING = 4096  # mksquashfs fills the file up to a multiple of it
COMPRESSORS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}


@dataclass(frozen=True)
class Superblock:
    """What a file says of itself.

    Attributes:
        time: seconds since 1970, of the file system's making.
        block: bytes.
        compressor: mksquashfs's name.
        version: major and minor.
        used: bytes of the file system, without the padding.
    """

    time: int
    block: int
    compressor: str
    version: tuple[int, int]
    used: int

    @property
    def size(self) -> int:
        """Bytes that the file should have."""
        return -(-self.used // PADDING) * PADDING


def read(file: Path) -> Superblock:
    """A file's superblock.

    Raises:
        UserError: it is no SquashFS, or cannot be read.
    """
    try:
        with file.open("rb") as data:
            head = data.read(SIZE)
    except OSError as error:
        raise UserError("the file cannot be read", where=file, got=error.strerror) from error
    if len(head) < SIZE or not head.startswith(MAGIC):
        raise UserError("not a SquashFS file", where=file, expected=MAGIC, got=head[:4])
    _, _, time, block, _, compressor, _, _, _, major, minor, _, used = FORMAT.unpack_from(head)
    return Superblock(time, block, COMPRESSORS.get(compressor, f"number {compressor}"),
                      (major, minor), used)
