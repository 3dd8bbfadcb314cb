"""A manifest: what a builder put into its tree, one JSON object a line.

Every builder of image content writes one beside its tree. The image's gate reads
them all to prove that each path lies in exactly one layer; audits and the bill of
materials read them instead of the trees.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Entry", "read", "scan", "write"]

CHUNK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One path of an image tree.

    Attributes:
        path: absolute in the image, `/` separated, no trailing slash.
        type: `dir`, `file` or `link`.
        origin: the pin that brought it (`wheel:numpy`, `deb:bash`, `patch:NAME`, `generated`).
        size: bytes, files only.
        sha256: hex digest, files only.
        executable: files only.
        target: links only.
    """

    path: str
    type: str
    origin: str
    size: int | None = None
    sha256: str | None = None
    executable: bool | None = None
    target: str | None = None

    def content(self) -> tuple[object, ...]:
        """All that decides the entry's bytes in a layer; equal content may share a path."""
        return (self.type, self.size, self.sha256, self.executable, self.target)


def write(entries: Iterable[Entry], file: Path) -> None:
    """Write entries sorted by the bytes of their paths, the order of a layer's tar."""
    file.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(entries, key=lambda entry: os.fsencode(entry.path))
    with file.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as out:
        for entry in ordered:
            fields = {key: value for key, value in vars(entry).items() if value is not None}
            out.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n")


def read(file: Path) -> Iterator[Entry]:
    """Yield the entries of a manifest in the order written."""
    with file.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        for line in lines:
            yield Entry(**json.loads(line))


def scan(
    root: Path, origin: str, *, origins: Mapping[str, str] | None = None,
    known: Mapping[str, str] | None = None,
) -> Iterator[Entry]:
    """Yield an entry for every path below `root`, the root itself left out.

    Args:
        root: the tree; `root/etc/x` becomes `/etc/x`.
        origin: the origin of paths that `origins` does not name.
        origins: image path -> origin.
        known: image path -> SHA-256 (hex) of files hashed while they were written,
            which are not read again.
    """
    for folder, names, files in os.walk(root):
        for name in names + files:
            full = Path(folder, name)
            path = "/" + str(full.relative_to(root))
            source = (origins or {}).get(path, origin)
            status = full.lstat()
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(full)  # Path.readlink would tidy `a//b`
                yield Entry(path, "link", source, target=target)
            elif stat.S_ISDIR(status.st_mode):
                yield Entry(path, "dir", source)
            else:
                digest = (known or {}).get(path) or _sha256(full)
                executable = bool(status.st_mode & stat.S_IXUSR)
                yield Entry(path, "file", source, status.st_size, digest, executable)


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
