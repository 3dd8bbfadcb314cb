"""What a release has left in its places, held against one that nobody disturbed."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apertus_image.registry.server.folder import Folder
from apertus_image.registry.server.layout import Layout
from apertus_image.ui.progress import size
from support.kills import Aim

__all__ = ["Places", "Undisturbed", "moments"]

ATTESTATION = ".attestation.json"  # says when and where, so two makers' differ


@dataclass(frozen=True)
class Places:
    """The folders that a profile names, and where uploads are noted.

    Attributes:
        scratch: the release's folder lies in `releases` below it.
    """

    published: Path
    scratch: Path
    registry: Path
    state: Path

    @property
    def work(self) -> Path:
        """The folder of the one release there; one that is not there if there is none."""
        return next((self.scratch / "releases").glob("*"), self.scratch / "releases/none")

    @property
    def layout(self) -> Layout:
        return Layout(Folder(self.registry).data)

    def tags(self) -> list[str]:
        """The tags in the registry, but for the index of what is attached to a digest."""
        return [name for repository in self.layout.repositories()
                for name, _ in self.layout.tags(repository) if not name.startswith("sha256-")]

    def uploads(self) -> Iterator[Path]:
        """The files of uploads that nobody has finished."""
        return (path for folder in self.registry.rglob("_uploads") for path in folder.rglob("*")
                if path.is_file())

    def in_uploads(self) -> int:
        """Bytes of uploads that nobody has finished."""
        return _sizes(self.uploads())

    def state_in_words(self) -> str:
        """What lies where, for people."""
        blobs = self.layout.blobs()
        beside = [path for folder in (self.work / "files", self.published)
                  for path in folder.glob(".*.part") for path in [path, *path.rglob("*")]]
        words = {
            f"{len(blobs)} blobs, {size(sum(map(self.layout.size, blobs)))}": blobs,
            f"{size(self.in_uploads())} in uploads": any(self.uploads()),
            f"{size(_sizes(beside))} beside a name": beside,
            f"{len(files := whole(self.work / 'files'))} work files": files,
            f"{len(files := whole(self.published))} published files": files,
            "the tag": self.tags(),
        }
        return "; ".join(text for text, there in words.items() if there) or "nothing"

    def left_over(self) -> list[Path]:
        """What a finished release has no use for.

        Uploads that no note names are the registry's: it removes them after seven days.
        """
        return [
            *(path for folder in (self.published, self.scratch) for path in folder.rglob(".*")
              if not path.is_symlink()),
            *self.work.glob("steps/*.begun"),
            *(path for path in self.state.rglob("*") if not path.is_dir()),
        ]


def moments(places: Places) -> dict[str, Aim]:
    """Step -> the next moment in it at which something has just got its final name."""
    def more(count: Callable[[], int]) -> Callable[[], Callable[[], bool]]:
        def begun() -> Callable[[], bool]:
            before = count()
            return lambda: count() > before
        return begun

    def files(pattern: str) -> Callable[[], int]:
        return lambda: len(list((places.work / "files").glob(pattern)))

    def blobs() -> int:
        return len(places.layout.blobs())

    def names() -> int:
        return len(whole(places.published)) + len(places.tags())

    found = (
        Aim("push", until=more(blobs), moment="one more blob is whole"),
        Aim("export", until=more(files("*.sqsh")), moment="the file has its name"),
        Aim("record", until=more(files("*.json")), moment="one more document is there"),
        Aim("attach", until=more(blobs), moment="one more blob is whole"),
        Aim("publish", until=more(names), moment="one more name or the tag is there"),
    )
    return {aim.step: aim for aim in found}


class Undisturbed:
    """What a release gives that ran from its beginning to its end.

    Attributes:
        published, work: name -> SHA-256 (hex), but for the attestation.
        blobs: the digests in the registry.
    """

    def __init__(self, places: Places) -> None:
        self._known: dict[tuple[int, ...], str] = {}
        self.published = self.digests(places.published)
        self.work = self.digests(places.work / "files")
        self.blobs = set(places.layout.blobs())

    def digests(self, folder: Path) -> dict[str, str]:
        """Name -> SHA-256 of what is there under final names, but for the attestation."""
        return {name: self._sha256(file) for name, file in whole(folder).items()
                if not name.endswith(ATTESTATION)}

    def faults(self, places: Places) -> list[str]:
        """Whatever has a final name and is not whole, or came before its turn.

        Raises:
            ValueError: a note of a step or an attestation is cut.
        """
        found = [f"{folder / name}: not as in an undisturbed release"
                 for folder, expected in ((places.published, self.published),
                                          (places.work / "files", self.work))
                 for name, sha256 in self.digests(folder).items() if expected.get(name) != sha256]
        layout = places.layout
        found += [f"{digest}: other bytes in the registry" for digest in layout.blobs()
                  if f"sha256:{self._sha256(layout.blob(digest))}" != digest]
        notes = [*places.work.glob("steps/*.json"), *places.state.rglob("*.json"), *(
            file for folder in (places.work, places.published)
            for file in folder.rglob(f"[!.]*{ATTESTATION}"))]
        for note in notes:
            json.loads(note.read_bytes())
        if places.tags() and self.digests(places.published) != self.published:
            found.append("a tag is there before all that is published")
        return found

    def _sha256(self, file: Path) -> str:
        """Of the same bytes of one inode only once: there are gigabytes."""
        now = file.stat()
        key = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
        if key not in self._known:
            with file.open("rb") as data:
                self._known[key] = hashlib.file_digest(data, "sha256").hexdigest()
        return self._known[key]


def whole(folder: Path) -> dict[str, Path]:
    """The files below a folder that have their final names."""
    files = {path.relative_to(folder): path for path in sorted(folder.rglob("*"))
             if path.is_file()}
    return {str(name): path for name, path in files.items()
            if not any(part.startswith(".") for part in name.parts)}


def _sizes(paths: Iterable[Path]) -> int:
    """Bytes of the files among paths; a server may remove some meanwhile."""
    total = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total
