"""Reading a SquashFS back, and comparing it with the tree that it was made of.

unsquashfs, the referee, writes the file system as a list of entries and then the bytes of its
files, every block decompressed, one after the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from apertus_image.errors import UserError, raise_all
from apertus_image.oci.ahead import ahead
from apertus_image.squashfs import pseudo
from apertus_image.squashfs.content import widen
from apertus_image.squashfs.node import Node
from apertus_image.squashfs.proof import Proof, StoredLayer

__all__ = ["check", "check_entries", "hashes", "listing"]

CHUNK = 1 << 20
FIRST = 100


def listing(file: Path, programs: Path) -> list[pseudo.Listed]:
    """Every entry of a SquashFS, the root first.

    Raises:
        UserError: it cannot be read.
    """
    with _unpacked(file, programs, whole=False) as stream:
        return pseudo.read(stream)


def hashes(file: Path, programs: Path,
           progress: Callable[[int], None] = lambda _bytes: None) -> dict[str, str]:
    """Path -> SHA-256 (hex) of every file of a SquashFS, all of it decompressed.

    Raises:
        UserError: it cannot be read.
    """
    found = {}
    with _unpacked(file, programs, whole=True) as stream:
        listed = pseudo.read(stream)
        files = _files(listed, {each.node.path: each.node for each in listed})
        for batch in ahead(_batches(stream, files)):
            for part in batch:
                if part.first:
                    digest = hashlib.sha256()
                digest.update(part.data)
                progress(len(part.data))
                if part.last:
                    found[part.node.path] = digest.hexdigest()
    return found


def check_entries(file: Path, nodes: Mapping[str, Node], programs: Path) -> None:
    """The quick check: every entry's type, mode, owner, size and target, but no file's bytes.

    Raises:
        UserError: naming the entries that differ, the first hundred of them.
    """
    _report(_compare(listing(file, programs), nodes))


def check(
    file: Path, nodes: Mapping[str, Node], layers: list[StoredLayer], programs: Path,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> None:
    """The full check: every block decompressed, every file's bytes proven the image's own.

    Args:
        layers: those of the image that lie in the store.
        progress: told the bytes of files read back.

    Raises:
        UserError: naming the entries that differ, the first hundred of them.
    """
    proof = _read_back(file, nodes, layers, programs, progress)
    differing = proof.differing_files()
    if not differing and (layers_differing := proof.differing_layers()):
        # Which file it is shows where each is compared with what it was made of.
        differing = _read_back(file, nodes, [], programs, lambda _: None).differing_files()
        differing = differing or layers_differing
    _report(differing)


def _read_back(file: Path, nodes: Mapping[str, Node], layers: list[StoredLayer], programs: Path,
               progress: Callable[[int], None]) -> Proof:
    proof = Proof(nodes, layers)
    with _unpacked(file, programs, whole=True) as stream:
        listed = pseudo.read(stream)
        _report(_compare(listed, nodes))
        for batch in ahead(_batches(stream, _files(listed, nodes))):
            for part in batch:
                if part.first:
                    told = proof.begin(part.node)
                told(part.data)
                progress(len(part.data))
                if part.last:
                    proof.end(part.node)
    return proof


def _report(problems: list[UserError]) -> None:
    raise_all(problems[:FIRST], "the written file is not the image: {n} differences")


@contextlib.contextmanager
def _unpacked(file: Path, programs: Path, *, whole: bool) -> Iterator[BinaryIO]:
    """What unsquashfs writes; where it fails that is raised, and not what follows from it."""
    command = [str(programs / "unsquashfs"), "-quiet", "-no-progress", "-pf", "-", str(file)]
    failure = None
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, bufsize=CHUNK,
                              env={"LC_ALL": "C"}) as process:
            widen(process.stdout.fileno())
            try:
                yield process.stdout
            except UserError as error:
                failure = error
            finally:
                if not whole or failure:
                    process.terminate()
        said.seek(0)
        words = said.read().decode(errors="replace").strip()
    if process.returncode > 0 or (whole and process.returncode and not failure):
        raise UserError("unsquashfs cannot read the file", where=file, got=words[-2000:],
                        next_step="export it again") from failure
    if failure:
        raise failure


def _compare(listed: list[pseudo.Listed], nodes: Mapping[str, Node]) -> list[UserError]:
    problems = []
    found = {each.node.path: each for each in listed}
    for path in sorted({*found, *nodes}):
        got, wanted = found.get(path), nodes.get(path)
        if got is None or wanted is None:
            problems.append(UserError("an entry is " + ("missing" if got is None else "too many"),
                                      where=path))
            continue
        if got.owner != (0, 0):
            problems.append(UserError("an entry's owner differs", where=path, expected="0:0",
                                      got="{}:{}".format(*got.owner)))
        for what in ("type", "mode", "size", "target"):
            a, b = getattr(wanted, what), getattr(got.node, what)
            if a != b and not (what == "mode" and wanted.type == "link"):
                form = oct if what == "mode" else str
                problems.append(UserError(f"an entry's {what} differs", where=path,
                                          expected=form(a), got=form(b)))
    return problems


def _files(listed: list[pseudo.Listed], nodes: Mapping[str, Node]) -> list[Node]:
    """The tree's files in the order of their bytes."""
    files = [each for each in listed if each.node.type == "file"]
    return [nodes[each.node.path] for each in sorted(files, key=lambda each: each.offset)]


class _Part(NamedTuple):
    node: Node
    data: bytes
    first: bool
    last: bool


def _batches(stream: BinaryIO, files: list[Node]) -> Iterator[list[_Part]]:
    """The files' bytes, about a MiB at a time, whether a file is larger or smaller."""
    batch, size = [], 0
    for node in files:
        left = node.size
        while left or not node.size:
            wanted = min(CHUNK, left)
            data = stream.read(wanted)
            if len(data) < wanted:
                raise UserError("the written file ends too early", where=node.path,
                                expected=f"{node.size} bytes",
                                got=f"{node.size - left + len(data)} bytes")
            batch.append(_Part(node, data, left == node.size, left == wanted))
            left -= wanted
            size += wanted
            if size >= CHUNK:
                yield batch
                batch, size = [], 0
            if not left:
                break
    yield batch
    if stream.read(1):
        raise UserError("the written file has more bytes than its entries")
