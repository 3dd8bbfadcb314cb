"""What is sent: bytes with a digest, as often as they are needed, from where they lie."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.oci.layer import Layer, stream
from apertus_image.oci.verify import difference
from apertus_image.tree import manifest

__all__ = ["Blob", "Reader", "from_bytes", "from_file", "from_layer"]

CHUNK = 1 << 20
MANIFESTS = "usr/share/apertus/manifests"


@dataclasses.dataclass(frozen=True)
class Blob:
    """A blob that can be read from its beginning at any time.

    Attributes:
        digest: `sha256:…`, what the bytes have to turn out to be.
        size: bytes.
        chunks: its bytes, read anew each time; of any length.
        changed: the error for bytes that turned out otherwise: (digest, size) found.
    """

    digest: str
    size: int
    chunks: Callable[[], Iterator[bytes]]
    changed: Callable[[tuple[str, int]], UserError]


def from_bytes(data: bytes) -> Blob:
    """A small blob, held in memory."""
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    changed = UserError("a blob in memory has changed", where=digest)
    return Blob(digest, len(data), lambda: iter([data]), lambda _found: changed)


def from_file(file: Path, digest: str, size: int) -> Blob:
    """A blob in a file, as a layout has it."""

    def chunks() -> Iterator[bytes]:
        try:
            with file.open("rb") as data:
                while chunk := data.read(CHUNK):
                    yield chunk
        except OSError as error:
            raise UserError("a blob cannot be read", where=file, got=error.strerror) from error

    def changed(found: tuple[str, int]) -> UserError:
        return UserError("a blob is not what its digest says", where=file,
                         expected=f"{digest}, {size} bytes", got=f"{found[0]}, {found[1]} bytes",
                         next_step="make or fetch the image again")

    return Blob(digest, size, chunks, changed)


def from_layer(layer: Layer, physical: Callable[[str], Path] = Path) -> Blob:
    """A layer of the store: its tar, made while it is read (case 2: what changed is named).

    Args:
        physical: where a store path lies on this machine.
    """

    def changed(found: tuple[str, int]) -> UserError:
        return difference(layer, _recorded(layer, physical), found, physical)

    return Blob(layer.digest, layer.size, lambda: stream(layer.paths, physical), changed)


def _recorded(layer: Layer, physical: Callable[[str], Path]) -> Iterable[manifest.Entry]:
    """What the trees' own manifests say of a layer's paths; nothing unless each tree has one."""
    found: dict[str, manifest.Entry] = {}
    for path in layer.paths:
        tree = physical(path.path)
        files = sorted((tree / MANIFESTS).iterdir()) if (tree / MANIFESTS).is_dir() else []
        if not files:
            return []
        # A manifest does not list itself.
        for entry in manifest.scan(tree / "usr/share/apertus", ""):
            own = dataclasses.replace(entry, path=f"/usr/share/apertus{entry.path}")
            found[own.path] = own
        for folder in ("/usr", "/usr/share", "/usr/share/apertus"):
            found[folder] = manifest.Entry(folder, "dir", "")
        for file in files:
            found |= {entry.path: entry for entry in manifest.read(file)}
    return found.values()


class Reader:
    """A blob read once from its beginning, hashed on the way."""

    def __init__(self, blob: Blob) -> None:
        self._blob, self._chunks = blob, blob.chunks()
        self._rest = memoryview(b"")
        self._digest = hashlib.sha256()
        self.position = 0

    def fill(self, room: memoryview) -> None:
        """Put the next bytes into `room`, all of it.

        Raises:
            UserError: the blob is shorter than its size.
        """
        done = 0
        while done < len(room):
            piece = self._next(len(room) - done)
            room[done : done + len(piece)] = piece
            done += len(piece)

    def skip(self, count: int) -> None:
        """Read `count` bytes again that were sent before, for the digest's sake."""
        while count:
            count -= len(self._next(count))

    def check(self) -> None:
        """At the end: the bytes are what the digest says.

        Raises:
            UserError: they are not, what changed is named.
        """
        size = self.position + len(self._rest) + sum(map(len, self._chunks))
        found = f"sha256:{self._digest.hexdigest()}"
        if (found, size) != (self._blob.digest, self._blob.size):
            raise self._blob.changed((found, size))

    def _next(self, most: int) -> memoryview:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                raise self._blob.changed((f"sha256:{self._digest.hexdigest()}", self.position))
            self._rest = memoryview(chunk)
        piece, self._rest = self._rest[:most], self._rest[most:]
        self._digest.update(piece)
        self.position += len(piece)
        return piece
