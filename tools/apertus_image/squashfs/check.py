"""Reading a SquashFS back whole, and comparing every byte with what it was made of."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from apertus_image.errors import UserError, raise_all
from apertus_image.squashfs.tree import Node

__all__ = ["check"]

START = b"# START OF DATA - DO NOT MODIFY\n"
CHUNK = 1 << 20
TYPES = {"D": "dir", "R": "file", "S": "link"}


def check(
    file: Path, nodes: Mapping[str, Node], programs: Path,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> None:
    """Decompress every block; compare each entry and each file's bytes.

    unsquashfs, the referee, writes the file system as a list of entries and then the data of
    its files one after the other.

    Raises:
        UserError: naming the entries that differ, the first hundred of them.
    """
    with subprocess.Popen([str(programs / "unsquashfs"), "-quiet", "-pf", "-", str(file)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        found, data = _entries(process.stdout)
        problems = _compare(found, nodes)
        for offset_order in sorted(data, key=lambda each: each[1]):
            path, _, size = offset_order
            if not _same(process.stdout, size, nodes.get(path), progress):
                problems.append(UserError("a file's bytes differ", where=path))
        said = process.stderr.read().decode(errors="replace")
        status = process.wait()
    if status:
        problems.append(UserError("unsquashfs cannot read the file", where=file, got=said.strip()))
    raise_all(problems[:100], "the written file is not the image: {n} entries differ")


def _entries(stream: BinaryIO) -> tuple[dict[str, Node], list[tuple[str, int, int]]]:
    """(path -> entry, [(path, offset, size) of each file's data])."""
    found: dict[str, Node] = {}
    data = []
    while (line := stream.readline()) and line != START:
        if line.startswith(b"#"):
            continue
        name, rest = _name(line.rstrip(b"\n"))
        kind, fields = rest.split(b" ", 1)
        path = "/" if name == "/" else f"/{name}"
        # time, mode, uid, gid, and what the type needs
        _, mode, uid, gid, *more = fields.split(b" ", 4)
        size, target = 0, ""
        if kind == b"R":
            size, offset, _ = (int(part) for part in more[0].split(b" "))
            data.append((path, offset, size))
        elif kind == b"S":
            target = os.fsdecode(more[0])
        kind_name = TYPES.get(kind.decode(), kind.decode())
        owner = "" if (uid, gid) == (b"0", b"0") else f" of {uid.decode()}:{gid.decode()}"
        found[path] = Node(path, kind_name + owner, int(mode, 8), size, target)
    stream.readline()  # the `#` that closes the heading
    return found, data


def _name(line: bytes) -> tuple[str, bytes]:
    """A name with its backslashes resolved, and the rest of the line."""
    match = re.match(rb"((?:[^\\ ]|\\.)+) ", line)
    if match is None:
        raise UserError("unsquashfs wrote a line that cannot be read", got=line[:200])
    return os.fsdecode(re.sub(rb"\\(.)", rb"\1", match[1])), line[match.end() :]


def _compare(found: Mapping[str, Node], nodes: Mapping[str, Node]) -> list[UserError]:
    problems = []
    for path in sorted({*found, *nodes}):
        got, wanted = found.get(path), nodes.get(path)
        if got is None or wanted is None:
            problems.append(UserError("an entry is " + ("missing" if got is None else "too many"),
                                      where=path))
            continue
        for what in ("type", "mode", "size", "target"):
            a, b = getattr(wanted, what), getattr(got, what)
            if what == "mode" and wanted.type == "link":
                continue
            if a != b:
                problems.append(UserError(f"an entry's {what} differs", where=path,
                                          expected=a, got=b))
    return problems


def _same(stream: BinaryIO, size: int, node: Node | None, progress) -> bool:
    """Read a file's bytes from the stream, comparing them with their source."""
    source = node.source.open("rb", buffering=0) if node and node.source else None
    text = node.text if node else None
    same, done = node is not None, 0
    try:
        while done < size:
            data = stream.read(min(CHUNK, size - done))
            if not data:
                return False
            other = source.read(len(data)) if source else (text or b"")[done : done + len(data)]
            same = same and data == other
            done += len(data)
            progress(len(data))
    finally:
        if source:
            source.close()
    return same
