"""A commit's own files as a tree in the Nix store, with its submodules.

The tree comes from git's objects, not from the working tree: what is ignored, untracked or
changed there is not in it, and neither line ends, filters nor export attributes, which depend on
a user's settings, change a byte. So two checkouts of one commit, wherever they lie, are one
store path and one layer (case 32, NixOS/nix#6633).
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from apertus_image.application import prepared
from apertus_image.errors import UserError, raise_all
from apertus_image.release.git import SUBMODULE, Git, opened
from apertus_image.store.store import Store

__all__ = ["ApplicationSource", "tree_of"]

LINK, EXECUTABLE = "120000", 0o100
CHUNK = 1 << 20
# Git LFS, specification: a pointer is a small text that begins with this.
POINTER, POINTER_SIZE = b"version https://git-lfs.github.com/spec/", 1024
NAME = "source"  # what Nix calls a flake input's tree, so it takes this one as it is
TOLD = 3


@dataclass(frozen=True)
class ApplicationSource:
    """A user's own code, ready to be a layer.

    Attributes:
        commit: hex; for the record, not in the image (trap 16).
        submodules: (path, commit) of each, nested ones too, sorted by path.
        at: its place in the image.
        path: store path of the prepared tree.
        files: how many files and links it holds.
        warnings: sentences for the user.
    """

    commit: str
    submodules: tuple[tuple[str, str], ...]
    at: str
    path: str
    files: int
    warnings: tuple[str, ...] = ()

    def override(self) -> tuple[str, ...]:
        """What `nix build` needs to be told; a checkout never enters the lock."""
        return ("--override-input", "source", f"path:{self.path}", "--no-write-lock-file")


@dataclass
class _Found:
    """What a walk over a commit and its submodules gathers."""

    # (repository, mode, object, path below the checkout)
    leaves: list[tuple[Git, str, str, str]] = field(default_factory=list)
    submodules: list[tuple[str, str]] = field(default_factory=list)
    problems: list[UserError] = field(default_factory=list)


def tree_of(
    checkout: Path, at: str = prepared.USUAL_PLACE, *, store: Store | None = None,
    progress: Callable[[int], Callable[[int], None]] | None = None,
) -> ApplicationSource:
    """Add the files that a checkout's commit tracks to the store.

    Args:
        checkout: root of a git checkout; the commit checked out there is taken, whatever has
            been changed since.
        at: where the code goes in the image.
        store: default the machine's own.
        progress: given the number of files, gives what is called with 1 for each.

    Raises:
        UserError: no checkout; a submodule is not checked out or lacks its commit; objects are
            missing or damaged; a name that an image cannot hold; a place that is taken.
    """
    store = store or Store()
    prepared.checked(at)
    git = opened(checkout)
    commit = git.head()
    found = _Found()
    _gather(git, commit, "", found)
    raise_all(found.problems, "{n} submodules of the source cannot be had")
    try:
        with tempfile.TemporaryDirectory(prefix="apertus-source-") as scratch:
            folder = Path(scratch, NAME)
            links, pointers = _write(found.leaves, prepared.write(folder, at), at, progress)
            path = store.add_tree(folder)
    except OSError as error:
        raise UserError("the source's files cannot be written", where=tempfile.gettempdir(),
                        got=error.strerror, next_step="make room there, or set TMPDIR") from error
    warnings = [*_told("{n} files are Git LFS pointers and stay so, their content is not in the "
                       "image", pointers),
                *_told("{n} links lead out of the source; in a container they mean the image's own "
                       "files", [name for name, target in links if _leaves(name, target)])]
    return ApplicationSource(commit, tuple(sorted(found.submodules)), at, path, len(found.leaves),
                             tuple(warnings))


def _gather(git: Git, commit: str, prefix: str, found: _Found) -> None:
    """Note a commit's files, each under its path below the checkout, and its submodules'."""
    for entry in git.tree(commit):
        path = prefix + entry.path
        if entry.mode != SUBMODULE:
            found.leaves.append((git, entry.mode, entry.id, path))
            continue
        found.submodules.append((path, entry.id))
        inner = git.submodule(entry.path)
        update = f"git -C {git.folder} submodule update --init --recursive"
        if inner is None:
            found.problems.append(UserError("a submodule is not checked out", where=path,
                                            expected=f"commit {entry.id}", next_step=update))
        elif not inner.has_commit(entry.id):
            found.problems.append(UserError(
                "a submodule does not have its commit", where=path, expected=f"commit {entry.id}",
                next_step=update))
        else:
            _gather(inner, entry.id, f"{path}/", found)


def _write(
    leaves: list[tuple[Git, str, str, str]], tree: Path, at: str,
    progress: Callable[[int], Callable[[int], None]] | None,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Write every file and link; give (path, target) of links, and the LFS pointers' paths."""
    links: list[tuple[str, str]] = []
    # Names first, and links last, so that nothing is written through one.
    raise_all(prepared.faults(((path, None) for *_, path in leaves), at),
              "{n} names of the source cannot be in an image")
    for folder in {(tree / path).parent for *_, path in leaves}:
        folder.mkdir(parents=True, exist_ok=True)
    pointers = []
    done = progress(len(leaves)) if progress else None
    for path, mode, chunks in _contents(leaves):
        if mode == LINK:
            links.append((path, os.fsdecode(b"".join(chunks))))
        else:
            with (tree / path).open("xb") as file:
                start = b""
                for chunk in chunks:
                    start = start or chunk[:POINTER_SIZE]
                    file.write(chunk)
                if start.startswith(POINTER) and file.tell() <= POINTER_SIZE:
                    pointers.append(path)
                os.fchmod(file.fileno(), 0o755 if int(mode, 8) & EXECUTABLE else 0o644)
        if done:
            done(1)
    raise_all(prepared.faults(links, at), "{n} links of the source cannot be in an image")
    for path, target in links:
        (tree / path).symlink_to(target)
    return links, pointers


def _contents(
    leaves: list[tuple[Git, str, str, str]]
) -> Iterator[tuple[str, str, Iterator[bytes]]]:
    """(path, mode, content) of each, by one process a repository; a content is read to its end."""
    repositories = {id(git): git for git, *_ in leaves}
    for key, git in repositories.items():
        own = [(mode, oid, path) for other, mode, oid, path in leaves if id(other) == key]
        with tempfile.TemporaryFile() as wanted:
            wanted.write("".join(f"{oid}\n" for _, oid, _ in own).encode())
            wanted.seek(0)
            with git.start("cat-file", "--batch", "--buffer", stdin=wanted) as process:
                try:
                    for mode, oid, path in own:
                        yield path, mode, _blob(git, process.stdout, oid, path)
                finally:
                    process.kill()


def _blob(git: Git, output: IO[bytes], oid: str, path: str) -> Iterator[bytes]:
    """One object's content, proven by its name."""
    header = output.readline().decode(errors="replace").split()
    if header[:2] != [oid, "blob"]:
        raise UserError(
            "a file's content is not in the checkout's object store", where=f"{git.folder}: {path}",
            expected=f"blob {oid}", got=" ".join(header) or "git ended",
            next_step=f"git -C {git.folder} fsck; a partial clone has to be whole: "
                      f"git -C {git.folder} fetch --refetch --no-filter")
    size = left = int(header[2])
    digest = hashlib.sha1() if len(oid) == 40 else hashlib.sha256()
    digest.update(b"blob %d\0" % size)
    while left:
        chunk = output.read(min(left, CHUNK))
        if not chunk:
            break
        left -= len(chunk)
        digest.update(chunk)
        yield chunk
    output.read(1)  # the line's end
    if left or digest.hexdigest() != oid:
        raise UserError("a file's content is damaged in the checkout's object store",
                        where=f"{git.folder}: {path}", expected=f"blob {oid}",
                        got=f"{digest.hexdigest()}, {size - left} of {size} bytes",
                        next_step=f"git -C {git.folder} fsck")


def _leaves(path: str, target: str) -> bool:
    """Whether a link leads out of the code's own folder."""
    if target.startswith("/"):
        return True
    joined = posixpath.join(posixpath.dirname(path), target)
    return posixpath.normpath(joined).split("/")[0] == ".."


def _told(sentence: str, paths: list[str]) -> list[str]:
    if not paths:
        return []
    more = f" and {len(paths) - TOLD} more" if len(paths) > TOLD else ""
    return [f"{sentence.format(n=len(paths))}: {', '.join(sorted(paths)[:TOLD])}{more}"]
