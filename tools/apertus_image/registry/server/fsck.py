"""Checking a registry's files: a quick look before it starts, and every blob by its digest."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.registry.server.layout import LAYERS, REVISIONS, Layout, opened

__all__ = ["Broken", "Damage", "Report", "check"]

CHUNK = 1 << 20
MISSING = "missing"
MANIFEST = 4 << 20  # bytes; distribution takes no larger one
LEFT = 7 * 24 * 3600.0  # seconds after which an upload is nobody's; distribution's own figure
LIVE_WAIT = 1.0  # seconds in which a running server has written out a manifest

Telling = Callable[[str, int], Callable[[int], None]]


def _silent(_label: str, _total: int) -> Callable[[int], None]:
    return lambda _count: None


@dataclass
class Damage:
    """A blob that is not what its name says.

    Attributes:
        digest: the name.
        got: `missing`, what its bytes are instead, or why they cannot be read.
        repositories: those that link it.
        removed: whether it was taken out of the way of the next push.
    """

    digest: str
    got: str
    repositories: list[str]
    removed: bool = False


@dataclass
class Broken:
    """A manifest that cannot be pulled whole.

    Attributes:
        missing: the blobs that its repository no longer has; a push of the image brings them.
        wrong_size: whole blobs to which it gives another length: it was pushed so.
    """

    repository: str
    digest: str
    tags: list[str]
    missing: list[str]
    wrong_size: list[str]


@dataclass
class Report:
    """What a check found.

    Attributes:
        blobs, bytes: what was looked at.
        damaged: blobs.
        links: files that should hold a digest and hold something else, below the data folder.
        tags: `NAME:TAG` of tags whose manifest is gone.
        manifests: those that cannot be pulled whole.
        uploads: unfinished uploads of long ago that were removed.
        full: whether every blob was compared with its digest.
        repaired: whether damaged things were removed, so that a push mends them.
    """

    full: bool
    repaired: bool
    blobs: int = 0
    bytes: int = 0
    damaged: list[Damage] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    manifests: list[Broken] = field(default_factory=list)
    uploads: int = 0

    @property
    def clean(self) -> bool:
        return not (self.damaged or self.links or self.tags or self.manifests)

    def record(self) -> dict[str, Any]:
        """As JSON takes it, `clean` included."""
        return {**asdict(self), "clean": self.clean}

    def lines(self) -> list[str]:
        """One line a fault, for a person."""
        lines = [f"blob {each.digest}: {each.got}"
                 + (", removed" if each.removed and each.got != MISSING else "")
                 for each in self.damaged]
        lines += [f"damaged link {each}" + (", removed" if self.repaired else "")
                  for each in self.links]
        lines += [f"the manifest of {each} is gone" for each in self.tags]
        for each in self.manifests:
            name = ", ".join(f"{each.repository}:{tag}" for tag in each.tags) or \
                f"{each.repository}@{each.digest}"
            lines += [f"{name} misses {digest}" for digest in each.missing]
            lines += [f"{name} gives a wrong size for {digest}" for digest in each.wrong_size]
        return lines


def check(root: Path, *, full: bool, repair: bool, progress: Telling = _silent) -> Report:
    """Compare a registry's files with their names and with one another.

    The quick check stats every linked blob, reads the manifests, and hashes what has another
    length than a manifest gives it; the full one hashes everything. With `repair`, which only
    the holder of the folder's lock may ask for, damaged blobs and links are removed: the
    registry then answers 404 and takes them anew, where it would have kept them. Manifests stay,
    and are whole again after the next push.

    Args:
        root: `rootdirectory` of the registry.
        progress: called with a label and a total of bytes, gives what is called with each count.

    Raises:
        UserError: links cannot be read, or something cannot be removed.
    """
    try:
        return _Check(Layout(root), root, full, repair, progress).run()
    except OSError as error:
        raise UserError("the registry's files cannot be checked", where=error.filename or root,
                        got=error.strerror, next_step="see that the file system is well, and run "
                        "it as the folder's owner") from error


class _Check:
    def __init__(
        self, layout: Layout, root: Path, full: bool, repair: bool, progress: Telling
    ) -> None:
        self.layout, self.root, self.progress = layout, root, progress
        self.report = Report(full, repair)
        self.links: dict[tuple[str, str], set[str]] = {}
        self.bad: dict[str, str] = {}  # digest -> what it is instead
        self.unreadable: set[str] = set()
        self.manifests: dict[str, list[dict]] = {}  # digest -> what it needs

    def run(self) -> Report:
        self._read_links()
        linked = set().union(*self.links.values()) if self.links else set()
        for digest in linked:
            if self.layout.size(digest) is None:
                self.bad[digest] = MISSING
        present = self.layout.blobs() if self.report.full else sorted(linked - self.bad.keys())
        sizes = {digest: self.layout.size(digest) or 0 for digest in present}
        self.report.blobs, self.report.bytes = len(sizes), sum(sizes.values())

        revisions = {digest for (_, kind), digests in self.links.items() if kind == REVISIONS
                     for digest in digests}
        if self.report.full:
            self._hash(sizes, sizes)
        else:
            self._hash(revisions & sizes.keys(), sizes)
        for digest in sorted(revisions - self.bad.keys()):
            self.manifests[digest] = _needed(self.layout.blob(digest))
        if not self.report.full:
            told = {need["digest"]: need["size"] for needs in self.manifests.values()
                    for need in needs}
            self._hash({digest for digest, size in told.items()
                        if digest in sizes and sizes[digest] != size} - revisions, sizes)
        self._blame(sizes)
        if self.report.repaired:
            self._repair()
        return self.report

    def _read_links(self) -> None:
        for repository in self.layout.repositories():
            for kind in (LAYERS, REVISIONS):
                found = self.links.setdefault((repository, kind), set())
                for digest, good in self.layout.links(repository, kind):
                    if good:
                        found.add(digest)
                    else:
                        file = self.layout.link(repository, kind, digest)
                        self.report.links.append(str(file.relative_to(self.root)))

    def _hash(self, digests: Iterable[str], sizes: dict[str, int]) -> None:
        wanted = sorted(digests)
        step = self.progress("checking blobs", sum(sizes[digest] for digest in wanted))
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            for digest, got in pool.map(lambda each: (each, self._differs(each, step)), wanted):
                if got is not None:
                    self.bad[digest] = got

    def _differs(self, digest: str, step: Callable[[int], None]) -> str | None:
        """What a blob is instead of what it should be, or None."""
        try:
            got, size = _digest(self.layout.blob(digest), step)
            if got != digest and not self.report.repaired:
                time.sleep(LIVE_WAIT)  # a running server writes manifests in place
                got, size = _digest(self.layout.blob(digest), step)
        except FileNotFoundError:  # deleted since the listing
            return None
        except OSError as error:
            # A server of a parallel file system may be away: nothing to remove for that.
            self.unreadable.add(digest)
            return f"cannot be read: {error.strerror}"
        return None if got == digest else f"{size} bytes, {got}"

    def _blame(self, sizes: dict[str, int]) -> None:
        """Who is hurt by what is bad: manifests and tags, then the blobs by repository."""
        holders: dict[str, set[str]] = {digest: set() for digest in self.bad}
        for repository in self.layout.repositories():
            layers, revisions = (self.links[repository, kind] for kind in (LAYERS, REVISIONS))
            good = {LAYERS: layers - self.bad.keys(), REVISIONS: revisions - self.bad.keys()}
            tags: dict[str, list[str]] = {}
            lost = bool(revisions & self.bad.keys())  # a manifest, so nobody knows its layers
            for tag, digest in self.layout.tags(repository):
                if digest in good[REVISIONS]:
                    tags.setdefault(digest, []).append(tag)
                else:
                    self.report.tags.append(f"{repository}:{tag}")
                    lost = True
            needed = set(revisions)
            for digest in sorted(good[REVISIONS]):
                missing, wrong = [], []
                for need in self.manifests[digest]:
                    needed.add(need["digest"])
                    if need["digest"] not in good[need["kind"]]:
                        missing.append(need["digest"])
                    elif sizes.get(need["digest"], need["size"]) != need["size"]:
                        wrong.append(need["digest"])
                if missing or wrong:
                    self.report.manifests.append(
                        Broken(repository, digest, tags.get(digest, []), missing, wrong))
            for digest in (layers | revisions) & self.bad.keys():
                # docker-registry's garbage-collect leaves the links of the layers it deletes.
                if self.bad[digest] != MISSING or digest in needed or lost:
                    holders[digest].add(repository)
        self.report.damaged = [
            Damage(digest, got, sorted(holders[digest])) for digest, got in sorted(self.bad.items())
            if got != MISSING or holders[digest]]

    def _repair(self) -> None:
        for damage in self.report.damaged:
            if damage.digest not in self.unreadable:
                self.layout.remove_blob(damage.digest)
                damage.removed = True
        for link in self.report.links:
            (self.root / link).unlink(missing_ok=True)
        self.report.uploads = self.layout.remove_uploads(time.time() - LEFT)


def _digest(file: Path, step: Callable[[int], None]) -> tuple[str, int]:
    actual, size = hashlib.sha256(), 0
    with opened(file) as data:
        while chunk := data.read(CHUNK):
            actual.update(chunk)
            size += len(chunk)
            step(len(chunk))
    return f"sha256:{actual.hexdigest()}", size


def _needed(file: Path) -> list[dict]:
    """The descriptors that a manifest or an index needs in its repository.

    A `subject` may be absent (OCI distribution 1.1, pushing manifests with subject), and layers
    with `urls` lie elsewhere.
    """
    try:
        with opened(file) as data:
            manifest = json.loads(data.read(MANIFEST))
        layers = [manifest["config"]] if "config" in manifest else []
        layers += [each for each in manifest.get("layers") or [] if not each.get("urls")]
        return [{"digest": each["digest"], "size": each["size"], "kind": kind}
                for kind, found in ((LAYERS, layers), (REVISIONS, manifest.get("manifests") or []))
                for each in found]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return []  # its digest is right, so it was pushed so: not for this check to judge
