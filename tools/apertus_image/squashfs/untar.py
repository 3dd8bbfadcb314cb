"""A layer's tar as a folder of its own, unpacked in thought only: entries point into the tar.

The rules are those of Enroot's importer (GNU tar, then its whiteouts; notes on Enroot, 1) and
the OCI image-spec (layer.md, "Whiteouts"). Where the importer stops, so does this, unless the
meaning is clear without it.
"""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.squashfs.content import contents
from apertus_image.squashfs.node import Node, Piece
from apertus_image.squashfs.tree import HARD_LINK, IMPLIED_MODE, LayerTree

__all__ = ["untar"]

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
LONGEST_NAME, LONGEST_PATH = 255, 4095
GNU_MAGIC = b"ustar  \0"
MOST_LINKS = 40
ROOT = Node("/", "dir", IMPLIED_MODE)


def untar(file: Path, name: str,
          progress: Callable[[int], None] = lambda _bytes: None) -> LayerTree:
    """Read a tar, and every file's digest.

    Args:
        file: not compressed.
        name: of the layer, for errors.
        progress: told bytes of files.

    Raises:
        UserError: it is damaged, or holds what no importer takes.
    """
    reader = _Reader(file, name)
    for entry in _entries(file, name):
        reader.add(entry, progress)
    return LayerTree(reader.nodes, frozenset(reader.whiteouts), frozenset(reader.opaque))


class _Entry(tarfile.TarInfo):
    """A header in which GNU's times, where ustar has a prefix, are no part of the name."""

    @classmethod
    def frombuf(cls, buf: bytes, encoding: str, errors: str) -> _Entry:
        return cls._mended(super().frombuf(buf, encoding, errors), buf, encoding, errors)

    @classmethod
    def _frombuf(cls, buf: bytes, encoding: str, errors: str, **options: bool) -> _Entry:
        # Where Python has this, it calls it for a file's headers, and `frombuf` for no other.
        return cls._mended(super()._frombuf(buf, encoding, errors, **options), buf, encoding,
                           errors)

    @classmethod
    def _mended(cls, entry: _Entry, buf: bytes, encoding: str, errors: str) -> _Entry:
        if buf[257:265] == GNU_MAGIC:
            entry.name = buf[:100].split(b"\0")[0].decode(encoding, errors)
        return entry


def _entries(file: Path, layer: str) -> Iterator[tarfile.TarInfo]:
    size = file.stat().st_size
    if not size:
        return

    def damaged(got: object) -> UserError:
        return UserError("a layer's tar is damaged", where=layer, got=got,
                         next_step="build or fetch the image again")

    try:
        with tarfile.open(file, "r:", encoding="utf-8", errors="surrogateescape",
                          tarinfo=_Entry) as archive:
            for entry in archive:
                stored = sum(length for _, length in entry.sparse) if entry.sparse else entry.size
                if entry.size < 0:
                    raise damaged(f"{entry.name} of {entry.size} bytes")
                if entry.isreg() and entry.offset_data + stored > size:
                    raise damaged(f"it ends within {entry.name}")
                yield entry
            end = archive.offset
    except (tarfile.TarError, ValueError, OverflowError) as error:  # numbers that are none
        raise damaged(error) from error
    # Python takes a header that it cannot read for the end.
    with file.open("rb") as data:
        data.seek(min(end, size))
        if data.read(tarfile.BLOCKSIZE).strip(b"\0"):
            raise damaged(f"a header that cannot be read, at byte {end}")


class _Reader:
    def __init__(self, file: Path, layer: str) -> None:
        self._file, self._layer = str(file), layer
        self.nodes: dict[str, Node] = {}
        self.whiteouts: set[str] = set()
        self.opaque: set[str] = set()

    def add(self, entry: tarfile.TarInfo, progress: Callable[[int], None]) -> None:
        path = self._path(entry.name)
        if path.startswith("/dev/"):
            return
        folder, name = posixpath.split(path)
        if any(part.startswith(WHITEOUT) for part in folder.split("/")):
            raise self._refused("an entry lies in a whiteout", path)
        folder = self._followed(folder, path)
        path = posixpath.join(folder, name)
        self._imply(folder, path)
        if name == OPAQUE:
            if folder == "/":
                raise self._refused("the whole root is opaque", path,
                                    "the marker in folders alone: Enroot ignores it in the root")
            self.opaque.add(folder)
        elif name.startswith(WHITEOUT):
            hidden = name.removeprefix(WHITEOUT)
            if hidden in ("", ".", "..") or hidden.startswith(WHITEOUT):
                raise self._refused("a whiteout of no known kind", path,
                                    f"{WHITEOUT}NAME or {OPAQUE}")
            self.whiteouts.add(posixpath.join(folder, hidden))
        elif path == "/" and not entry.isdir():
            raise self._refused("the root is no folder", path)
        else:
            self._put(self._node(entry, path, progress))

    def _refused(self, what: str, path: str, expected: str | None = None) -> UserError:
        return UserError(what, where=f"{path} of {self._layer}", expected=expected,
                         next_step="build the image without it")

    def _path(self, name: str) -> str:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self._refused("an entry's name climbs with ..", name)
        if any(len(part.encode("utf-8", "surrogateescape")) > LONGEST_NAME for part in parts):
            raise self._refused("an entry's name is too long", name,
                                f"at most {LONGEST_NAME} bytes between slashes")
        if len(name.encode("utf-8", "surrogateescape")) >= LONGEST_PATH or "\0" in name:
            raise self._refused("an entry's name cannot be a path", repr(name),
                                f"less than {LONGEST_PATH} bytes, none of them zero")
        return "/" + "/".join(parts)

    def _followed(self, folder: str, path: str) -> str:
        """The folder that tar unpacks into: it follows this layer's own links."""
        for _ in range(MOST_LINKS):
            parts = folder.strip("/").split("/")
            prefixes = ("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))
            link = next((prefix for prefix in prefixes
                         if (node := self.nodes.get(prefix)) and node.type == "link"), None)
            if link is None:
                return folder
            target = self.nodes[link].target
            real = posixpath.normpath(posixpath.join(posixpath.dirname(link), target))
            there = self.nodes.get(real, ROOT if real == "/" else None)
            if target.startswith("/") or ".." in target.split("/") or not there or (
                    there.type not in ("dir", "link")):
                break
            folder = real.rstrip("/") + folder.removeprefix(link) or "/"
        raise self._refused("an entry lies behind a link of its own layer", path,
                            "a relative link to a folder of the layer, as tar can follow it")

    def _imply(self, folder: str, path: str) -> None:
        while folder != "/":
            node = self.nodes.setdefault(folder, Node(folder, "dir", IMPLIED_MODE))
            if node.type != "dir":
                raise self._refused(f"an entry lies in a {node.type}", path)
            folder = posixpath.dirname(folder)

    def _put(self, node: Node) -> None:
        """The last of two entries of one name counts, but no folder is emptied for it."""
        if node.type != "dir" and self.nodes.get(node.path, node).type == "dir" and any(
                each.startswith(node.path + "/") for each in self.nodes):
            raise self._refused(f"a {node.type} takes the place of a folder of its own layer",
                                node.path)
        self.nodes.pop(node.path, None)
        self.nodes[node.path] = node

    def _node(self, entry: tarfile.TarInfo, path: str, progress: Callable[[int], None]) -> Node:
        mode = entry.mode & 0o7777
        if entry.isdir() or entry.type == tarfile.REGTYPE and entry.name.endswith("/"):
            return Node(path, "dir", mode)
        if entry.issym():
            if not 0 < len(entry.linkname.encode("utf-8", "surrogateescape")) <= LONGEST_PATH or (
                    "\0" in entry.linkname):
                raise self._refused("a link has no possible target", path,
                                    f"1 to {LONGEST_PATH} bytes, none of them zero")
            return Node(path, "link", 0o777, target=entry.linkname)
        if entry.isfifo():
            return Node(path, "fifo", mode)
        if entry.islnk():
            target = self._path(entry.linkname)
            target = posixpath.join(self._followed(posixpath.dirname(target), path),
                                    posixpath.basename(target))
            there = self.nodes.get(target)
            if there is None:
                return Node(path, HARD_LINK, 0, target=target)
            if there.type == "dir":
                raise self._refused("a hard link to a folder", path)
            return there._replace(path=path)
        if entry.isreg():
            return self._regular(entry, path, mode, progress)
        raise self._refused("an entry of a kind that Enroot cannot unpack for a user", path,
                            "files, folders, links and FIFOs; devices below /dev alone")

    def _regular(self, entry: tarfile.TarInfo, path: str, mode: int,
                 progress: Callable[[int], None]) -> Node:
        pieces, digest = tuple(self._pieces(entry)), hashlib.sha256()
        for piece in pieces:
            for data in contents(piece):
                digest.update(data)
                progress(len(data))
        return Node(path, "file", mode, entry.size, pieces=pieces, sha256=digest.hexdigest())

    def _pieces(self, entry: tarfile.TarInfo) -> Iterator[Piece]:
        """Where a file's bytes lie; of a sparse one, the holes between them are zeros."""
        done, offset = 0, entry.offset_data
        parts = [part for part in entry.sparse or [(0, entry.size)] if part[1]]
        if any(length % tarfile.BLOCKSIZE for _, length in parts[:-1]):
            # GNU tar begins every part in a new block, others do not.
            raise self._refused("a sparse file in parts that fill no block", entry.name)
        for start, length in parts:
            if start > done:
                yield Piece(start - done)
            yield Piece(length, self._file, offset)
            done, offset = start + length, offset + length
        if done < entry.size:
            yield Piece(entry.size - done)
