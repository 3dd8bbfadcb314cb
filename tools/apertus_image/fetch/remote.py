"""A remote file as a seekable one, by HTTP ranges: reading a wheel's METADATA only."""

from __future__ import annotations

import io
import zipfile

import requests

__all__ = ["RemoteFile", "wheel_metadata"]


class RemoteFile(io.RawIOBase):
    """Reads ranges of a URL as they are asked for, a block at a time.

    Args:
        session: with its trust set.
        url: of the file.
        size: bytes, as the index says.
    """

    BLOCK = 64 * 1024

    def __init__(self, session: requests.Session, url: str, size: int) -> None:
        self._session, self._url, self._size = session, url, size
        self._position = 0
        self._blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview) -> int:
        number, skip = divmod(self._position, self.BLOCK)
        data = self._block(number)[skip : skip + len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            first = number * self.BLOCK
            last = min(first + self.BLOCK, self._size) - 1
            if last < first:
                return b""
            reply = self._session.get(
                self._url, headers={"Range": f"bytes={first}-{last}"}, timeout=60
            )
            reply.raise_for_status()
            whole = reply.status_code == 200
            self._blocks[number] = reply.content[first : last + 1] if whole else reply.content
        return self._blocks[number]


def wheel_metadata(session: requests.Session, url: str, size: int) -> bytes:
    """The METADATA of a wheel, without bringing the wheel."""
    with zipfile.ZipFile(io.BufferedReader(RemoteFile(session, url, size))) as wheel:
        names = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
        shallow = min(names, key=lambda name: name.count("/"))
        return wheel.read(shallow)
