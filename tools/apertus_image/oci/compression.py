"""Layers' compressions, which their media types have to tell truly (case 27)."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

from apertus_image.errors import UserError

__all__ = ["compression", "decompressed"]

CHUNK = 1 << 20
MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
MEDIA_TYPES = {
    "application/vnd.oci.image.layer.v1.tar": "",
    "application/vnd.oci.image.layer.v1.tar+gzip": "gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd": "zstd",
    "application/vnd.docker.image.rootfs.diff.tar": "",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd": "zstd",
}


def compression(file: Path, media_type: str) -> str:
    """`gzip`, `zstd` or nothing.

    Raises:
        UserError: the media type is unknown, or contradicts the bytes.
    """
    if media_type not in MEDIA_TYPES:
        raise UserError("a layer of an unknown media type", where=file, got=media_type,
                        expected=", ".join(MEDIA_TYPES))
    with file.open("rb") as data:
        start = data.read(4)
    found = next((name for name, magic in MAGIC.items() if start.startswith(magic)), "")
    if found != MEDIA_TYPES[media_type]:
        raise UserError("a layer's media type contradicts its bytes", where=file,
                        expected=f"{MEDIA_TYPES[media_type] or 'no compression'}, by {media_type}",
                        got=found or "no compression",
                        next_step="push the image again with a tool that tells the truth")
    return found


class _Hashed(io.RawIOBase):
    """A file whose bytes are hashed as they are read."""

    def __init__(self, file: Path) -> None:
        self._data = file.open("rb", buffering=0)
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        count = self._data.readinto(buffer)
        self.digest.update(memoryview(buffer)[:count])
        return count

    def close(self) -> None:
        self._data.close()
        super().close()


def decompressed(file: Path, kind: str, digest: str) -> Iterator[bytes]:
    """The bytes that were compressed, in chunks; the file itself is compared with its digest.

    Raises:
        UserError: the file cannot be decompressed, or is not the one of that digest.
    """
    with _Hashed(file) as raw, io.BufferedReader(raw, CHUNK) as data:
        try:
            stream = data
            if kind == "gzip":
                stream = gzip.GzipFile(fileobj=data)
            elif kind == "zstd":
                stream = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
            while chunk := stream.read(CHUNK):
                yield chunk
            while data.read(CHUNK):
                pass
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise UserError("a layer cannot be decompressed", where=file, got=error,
                            next_step="fetch the image again") from error
        found = f"sha256:{raw.digest.hexdigest()}"
    if found != digest:
        raise UserError("a blob of the layout is damaged", where=file, expected=digest, got=found,
                        next_step="fetch the image again")
