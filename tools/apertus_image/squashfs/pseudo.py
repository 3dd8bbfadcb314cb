"""Pseudo files: the one text that mksquashfs reads a tree from and unsquashfs writes it as.

A line for each entry, then the bytes of all files, one after the other (squashfs-tools 4.6.1,
USAGE-MKSQUASHFS, "Pseudo file definitions", type R). So a tree needs no unpacked copy, and
modes, owners and times are what the text says, whatever the machine. A file that lies somewhere
whole, with the mode that it is to have, is named instead (type l): mksquashfs reads it itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator
from typing import BinaryIO, NamedTuple

from apertus_image.errors import UserError, raise_all
from apertus_image.squashfs.node import Node

__all__ = ["Listed", "definitions", "read"]

START = b"# START OF DATA - DO NOT MODIFY\n#\n"
LETTERS = {"dir": b"D", "file": b"R", "link": b"S", "fifo": b"I"}
LINE = re.compile(rb"([^\\ ]*(?:\\.[^\\ ]*)*) (\w) \d+ ([0-7]+) (\d+) (\d+)(?: (.*))?$")
TYPES = {letter: name for name, letter in LETTERS.items()}


class Listed(NamedTuple):
    """An entry as unsquashfs lists it: a node, and where its bytes begin in what follows."""

    node: Node
    owner: tuple[int, int]
    offset: int


def definitions(nodes: Iterable[Node], lying: Container[str] = ()) -> Iterator[bytes]:
    """The lines, up to where the data begins.

    Args:
        nodes: in mksquashfs's order, which the data then has to follow, as it reads a pipe
            from front to back. The root is not among them.
        lying: paths of files that lie somewhere as they are; their data is not in the pipe.

    Raises:
        UserError: names that a line cannot hold.
    """
    nodes = list(nodes)
    raise_all((UserError("a name that mksquashfs cannot be told", where=repr(node.path),
                         got=repr(node.target or node.path), next_step="rename it in the image",
                         expected="no line end; a link's target with no blank before it and no "
                                  "backslash after it")
               for node in nodes if "\n" in node.path + node.target
               or node.target[:1].isspace() or node.target.endswith("\\")),
              "{n} names that mksquashfs cannot be told")
    offset = 0
    for node in nodes:
        if node.path in lying:
            yield b"%s l %s\n" % (_quoted(node.path), _quoted(node.pieces[0].file))
            continue
        line = b"%s %s 0 %o 0 0" % (_quoted(node.path), LETTERS[node.type], node.mode)
        if node.type == "file":
            line += b" %d %d 0" % (node.size, offset)
            offset += node.size
        elif node.type == "link":
            line += b" " + os.fsencode(node.target)
        elif node.type == "fifo":
            line += b" f"
        yield line + b"\n"
    yield START


def _quoted(name: str) -> bytes:
    return b'"%s"' % re.sub(rb'(["\\])', rb"\\\1", os.fsencode(name))


def read(stream: BinaryIO) -> list[Listed]:
    """The entries that unsquashfs wrote; leaves the stream at the first byte of data.

    Raises:
        UserError: a line cannot be read.
    """
    found = []
    while (line := stream.readline()) and line != b"# START OF DATA - DO NOT MODIFY\n":
        # Below the heading, what begins like a comment is a name.
        if line != b"#\n" if found else not line.startswith(b"#"):
            found.append(_entry(line.rstrip(b"\n")))
    stream.readline()  # the `#` that closes the heading
    return found


def _entry(line: bytes) -> Listed:
    match = LINE.match(line)
    if match is None:
        raise UserError("unsquashfs wrote a line that cannot be read", got=line[:200])
    name = re.sub(rb"\\(.)", rb"\1", match[1]) if b"\\" in match[1] else match[1]
    path = "/" if name == b"/" else "/" + os.fsdecode(name)
    kind = TYPES.get(match[2], match[2].decode())
    size, offset, target = 0, 0, ""
    if kind == "file":
        size, offset, _sparse = map(int, match[6].split())
    elif kind == "link":
        target = os.fsdecode(match[6])
    node = Node(path, kind, int(match[3], 8), size, target)
    return Listed(node, (int(match[4]), int(match[5])), offset)
