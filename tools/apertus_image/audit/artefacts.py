"""Two images, or two SquashFS files: which layer, entry and field differ first."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path

from apertus_image.audit.content import Entries, difference, entries_of
from apertus_image.audit.report import (
    ADDED,
    DEPENDENCY,
    OVERLAY,
    REMOVED,
    SAME,
    WILL,
    Difference,
    LayerChange,
)
from apertus_image.errors import UserError
from apertus_image.squashfs.check import hashes, listing
from apertus_image.squashfs.node import Node
from apertus_image.squashfs.source import LayoutImage, Source
from apertus_image.squashfs.tree import LayerTree

__all__ = ["Layer", "Progress", "compare_layers", "first_difference", "same_bytes",
           "squashfs_difference"]

Progress = Callable[[str, int], Callable[[int], None]]
HEADER = ("name", "mode", "uid", "gid", "uname", "gname", "mtime", "type", "linkname", "size",
          "pax_headers")


class Layer:
    """One layer of an image or a record.

    Args:
        name: as the image's history has it; empty where it is not known, as in a record.
        part: DEPENDENCY or OVERLAY.
    """

    def __init__(self, name: str, digest: str, size: int, part: str) -> None:
        self.name, self.digest, self.size, self.part = name, digest, size, part

    @property
    def known(self) -> tuple[str, int]:
        return self.digest, self.size


def compare_layers(old: Sequence[Layer], new: Sequence[Layer]) -> list[LayerChange]:
    """Layers by their digests; those that differ are paired by name, or by place from the top."""
    left = list(old)
    pairs: dict[int, Layer] = {}
    for same in (lambda was, now: was.digest == now.digest,
                 lambda was, now: bool(was.name) and was.name == now.name,
                 lambda was, now: not was.name or not now.name):
        # From the top, where most of what moves is.
        for number in reversed(range(len(new))):
            match = next((was for was in reversed(left) if same(was, new[number])), None)
            if number not in pairs and match is not None:
                left.remove(match)
                pairs[number] = match
    found = []
    for number, now in enumerate(new):
        was = pairs.get(number)
        name = now.name or (was and was.name) or f"layer {number + 1}"
        if was is None:
            found.append(LayerChange(name, now.part, ADDED, new=now.known))
        else:
            state = SAME if was.digest == now.digest else WILL
            part = OVERLAY if OVERLAY == now.part == was.part else DEPENDENCY
            found.append(LayerChange(name, part, state, old=was.known, new=now.known))
    return found + [LayerChange(was.name or was.digest, was.part, REMOVED, old=was.known)
                    for was in left]


def first_difference(old: Source, new: Source, layers: Sequence[LayerChange],
                     progress: Progress = lambda _label, _total: lambda _bytes: None
                     ) -> Difference | None:
    """The first entry that differs in the first layer that does.

    Args:
        layers: of both images.

    Raises:
        UserError: a layer is gone, or damaged.
    """
    pair = next(((each.old, each.new) for each in layers
                 if each.state == WILL and each.old and each.new), None)
    if pair is None:
        return None
    name = next(each.name for each in layers if each.old and each.old == pair[0])
    with tempfile.TemporaryDirectory(prefix="apertus-audit.") as scratch:
        trees = []
        for side, source in enumerate((old, new)):
            folder = Path(scratch, str(side))
            folder.mkdir()
            trees.append(source.layer(source.layers.index(pair[side][0]), folder))
        told = progress(f"comparing {name}", sum(
            node.size for tree in trees for node in tree.nodes.values()))
        found = difference(*(entries_of(tree, told) for tree in trees), name)
        tars = [_tar(tree) for tree in trees]
        if found is None and all(isinstance(each, LayoutImage) for each in (old, new)) and (
                all(tars)):
            return _header_difference(tars, name)  # of times and owners, which a tree has not
        return found


def _tar(tree: LayerTree) -> Path | None:
    """The plain tar that a layout's layer is read from."""
    return next((Path(piece.file) for node in tree.nodes.values() for piece in node.pieces
                 if piece.file), None)


def _header_difference(files: Sequence[Path], layer: str) -> Difference | None:
    """The first header that differs in two plain tars whose trees are the same."""
    with tarfile.open(files[0], "r:") as old, tarfile.open(files[1], "r:") as new:
        for was, now in zip_longest(old, new):
            if was is None or now is None:
                return Difference(layer, (was or now).name, "presence in the tar",
                                  "there" if was else "absent", "there" if now else "absent", 1)
            for what in HEADER:
                if (one := getattr(was, what)) != (other := getattr(now, what)):
                    return Difference(layer, was.name, f"{what} in the tar", str(one),
                                      str(other), 1)
    return None


def squashfs_difference(old: Path, new: Path, programs: Path,
                        progress: Progress = lambda _label, _total: lambda _bytes: None
                        ) -> Difference | None:
    """The first entry that differs in two SquashFS files, by tree and content.

    Args:
        programs: folder of the pinned unsquashfs.

    Raises:
        UserError: one cannot be read.
    """
    trees = [_entries(file, programs) for file in (old, new)]
    # The tree alone first: it is listed in a second, while the content is all of the bytes.
    if found := difference(*trees):
        return found
    told = progress("reading both files", sum(each.size for each in trees))
    for each, file in zip(trees, (old, new), strict=True):
        sums = hashes(file, programs, told)
        each.hashed = lambda node, sums=sums: sums[node.path]
    return difference(*trees)


def _entries(file: Path, programs: Path) -> Entries:
    listed = listing(file, programs)

    def read(node: Node) -> bytes:
        command = [str(programs / "unsquashfs"), "-no-wildcards", "-cat", str(file),
                   node.path.lstrip("/")]
        shown = subprocess.run(command, capture_output=True, env={"LC_ALL": "C"})
        if shown.returncode:
            raise UserError("unsquashfs cannot read a file", where=f"{file}: {node.path}",
                            got=shown.stderr.decode(errors="replace")[-2000:])
        return shown.stdout

    return Entries({each.node.path: each.node for each in listed}, lambda _node: "", read,
                   {each.node.path: each.owner for each in listed})


def same_bytes(old: Path, new: Path, progress: Progress) -> bool:
    """Whether two files are equal, byte for byte."""
    if old.stat().st_size != new.stat().st_size:
        return False
    told = progress("comparing the files", old.stat().st_size)
    with old.open("rb") as one, new.open("rb") as other:
        while data := one.read(1 << 20):
            if data != other.read(len(data)):
                return False
            told(len(data))
    return True
