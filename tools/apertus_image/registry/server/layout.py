"""How docker-registry lays blobs and links out on disk.

Source: distribution 2.8, registry/storage/paths.go; seen with Debian's 2.8.2. A repository holds
links, files that hold a digest; all repositories share the blobs. A link whose blob is gone is
answered with 404; a blob of the wrong length is served, and kept when it is pushed again (notes
on pushing, "Truncated blob file").
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

__all__ = ["LAYERS", "REVISIONS", "Layout", "opened"]

LAYERS, REVISIONS = "_layers/sha256", "_manifests/revisions/sha256"
HEX = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Layout:
    """The files below a registry's root directory.

    Args:
        root: `rootdirectory` of its configuration.
    """

    def __init__(self, root: Path) -> None:
        self._blobs = root / "docker/registry/v2/blobs/sha256"
        self._repositories = root / "docker/registry/v2/repositories"

    def blob(self, digest: str) -> Path:
        """The file with the bytes of `sha256:HEX`."""
        name = digest.removeprefix("sha256:")
        return self._blobs / name[:2] / name / "data"

    def size(self, digest: str) -> int | None:
        """The length of a blob in bytes, None where it is not there."""
        try:
            return self.blob(digest).stat().st_size
        except FileNotFoundError:
            return None

    def blobs(self) -> list[str]:
        """The digests whose bytes are here, sorted."""
        found = (f"sha256:{name}" for start in _names(self._blobs)
                 for name in _names(self._blobs / start) if HEX.fullmatch(name))
        return [digest for digest in found if self.size(digest) is not None]

    def repositories(self) -> list[str]:
        """The names of all repositories, sorted; no part of a name begins with `_`."""
        def fail(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise error

        found = []
        for folder, below, _ in os.walk(self._repositories, onerror=fail):
            if any(name.startswith("_") for name in below):
                found.append(Path(folder).relative_to(self._repositories).as_posix())
            below[:] = [name for name in below if not name.startswith("_")]
        return sorted(found)

    def link(self, repository: str, kind: str, digest: str) -> Path:
        """The file that makes a blob (LAYERS) or a manifest (REVISIONS) the repository's."""
        return self._repositories / repository / kind / digest.removeprefix("sha256:") / "link"

    def links(self, repository: str, kind: str) -> Iterator[tuple[str, bool]]:
        """The digests a repository links, and whether each link says what its name says."""
        for name in _names(self._repositories / repository / kind):
            digest = f"sha256:{name}"
            said = _said(self.link(repository, kind, digest))
            if said is not None:
                yield digest, said == digest

    def tag(self, repository: str, name: str) -> Path:
        """The file that says which manifest a tag names."""
        return self._repositories / repository / "_manifests/tags" / name / "current/link"

    def tags(self, repository: str) -> Iterator[tuple[str, str | None]]:
        """The tags of a repository, and the digest each names, None where its link is no good."""
        for name in _names(self._repositories / repository / "_manifests/tags"):
            said = _said(self.tag(repository, name))
            yield name, said if said and DIGEST.fullmatch(said) else None

    def remove_blob(self, digest: str) -> None:
        """Remove a blob, and what every repository knows of it.

        The bytes go first: bytes without a link would be kept when the blob is pushed again,
        damaged as they are, while a link without bytes is answered with 404.
        """
        if (folder := self.blob(digest).parent).exists():
            shutil.rmtree(folder)
        for repository in self.repositories():
            for kind in (LAYERS, REVISIONS):
                self.link(repository, kind, digest).unlink(missing_ok=True)

    def cut_uploads(self, acknowledged: Mapping[str, int]) -> int:
        """Cut uploads back to what their clients know to be there; count them.

        What came of a chunk whose sender was killed is kept by docker-registry, and the upload's
        address, which holds the length that was acknowledged, is of no use any more (notes on
        pushing, "Connection cut inside a PATCH"). An upload that cannot be cut begins anew.

        Args:
            acknowledged: upload's ID -> bytes.
        """
        count = 0
        for repository in self.repositories():
            uploads = self._repositories / repository / "_uploads"
            for name in acknowledged.keys() & set(_names(uploads)):
                with contextlib.suppress(OSError):
                    count += _cut(uploads / name, acknowledged[name])
        return count

    def remove_uploads(self, before: float) -> int:
        """Remove uploads that nothing was added to since `before`, a time; count them."""
        count = 0
        for repository in self.repositories():
            uploads = self._repositories / repository / "_uploads"
            for folder in map(uploads.joinpath, _names(uploads)):
                newest = max(each.lstat().st_mtime for each in [folder, *folder.rglob("*")])
                if newest < before:
                    shutil.rmtree(folder)
                    count += 1
        return count


def opened(file: Path) -> BinaryIO:
    """Open a file to check it, without renewing its access time where the kernel lets us.

    A check is no use of the file, and a site may forbid what only renews access times.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(file, flags | os.O_NOATIME), "rb")
    except PermissionError:  # another user's file
        return os.fdopen(os.open(file, flags), "rb")


def _cut(upload: Path, length: int) -> bool:
    data = upload / "data"
    if data.stat().st_size <= length:
        return False
    for state in upload.glob("hashstates/*/*"):  # of the digest, each named by its length
        if state.name.isdigit() and int(state.name) > length:
            state.unlink()
    os.truncate(data, length)
    return True


def _names(folder: Path) -> list[str]:
    """What a folder holds, sorted; an unreadable one is an error, where glob would pass it over."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are what is asked for
    except (FileNotFoundError, NotADirectoryError):
        return []


def _said(file: Path) -> str | None:
    try:
        with opened(file) as data:
            return data.read(256).decode("ascii", "replace")
    except FileNotFoundError:
        return None
