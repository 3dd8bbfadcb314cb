"""Writing a SquashFS with mksquashfs, straight from where the bytes lie: no unpacked copy.

mksquashfs reads the tree from a pipe. The bits depend on the tree and the settings here alone:
no time, no owner, no hard link, no sparse file, no extended attribute, whatever the number of
processors (notes on Enroot, 6).
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from apertus_image.errors import UserError
from apertus_image.squashfs.content import send, widen, write_all
from apertus_image.squashfs.node import Node
from apertus_image.squashfs.pseudo import definitions

__all__ = ["COMPRESSORS", "FORMAT_VERSION", "Settings", "write"]

FORMAT_VERSION = 2
"""Of the bits: raised whenever the same tree would give another file."""

BATCH = 1 << 20  # bytes of lines
# Of mksquashfs's queues. Its default is a quarter of the machine's: too much on a node, and the
# bits should know as little of the machine's memory as of its processors.
MEMORY = "1G"


COMPRESSORS = {"zstd": range(1, 23), "gzip": range(1, 10), "xz": range(0), "lzo": range(0),
               "lz4": range(0)}
"""mksquashfs's names, and the levels that each has."""


@dataclass(frozen=True)
class Settings:
    """How a SquashFS is compressed.

    Attributes:
        compressor: one of COMPRESSORS.
        level: of the compressor, None where it has none or its own default is meant.
        block: bytes, a power of two from 4 KiB to 1 MiB.
    """

    compressor: str = "zstd"
    level: int | None = 3
    block: int = 1 << 20

    @classmethod
    def of(cls, compressor: str, level: int | None, block: int) -> Settings:
        """From what a user says; zstd has level 3 unless they say another.

        Raises:
            UserError: what mksquashfs would refuse, before anything is begun.
        """
        levels = COMPRESSORS[compressor]
        if level is not None and level not in levels:
            raise UserError("no such compression level", where=compressor, got=level,
                            expected=f"{levels[0]} to {levels[-1]}" if levels else "none")
        if block not in (1 << n for n in range(12, 21)):
            raise UserError("no such block size", got=block,
                            expected="a power of two from 4096 to 1048576")
        return cls(compressor, 3 if level is None and compressor == "zstd" else level, block)

    def arguments(self) -> list[str]:
        level = [] if self.level is None else ["-Xcompression-level", str(self.level)]
        return ["-comp", self.compressor, *level, "-b", str(self.block)]


def write(
    nodes: Iterable[Node], out: Path, programs: Path, settings: Settings,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> None:
    """Write `out`, which must not exist.

    Args:
        nodes: every path, in mksquashfs's order, the root first.
        programs: folder of mksquashfs, from the pinned toolchain.
        progress: told bytes of files, as far as mksquashfs is.

    Raises:
        UserError: a file of the image cannot be read, or mksquashfs failed, in its own words.
    """
    root, *rest = nodes
    total = sum(node.size for node in rest)
    with tempfile.TemporaryDirectory(prefix="empty-", dir=out.parent) as empty:
        Path(empty).chmod(root.mode)  # mksquashfs takes the root's mode from a folder
        command = [
            str(programs / "mksquashfs"), empty, str(out), "-pf", "-",
            "-all-root", "-mkfs-time", "0", "-all-time", "0", "-noappend", "-no-xattrs",
            "-no-hardlinks", "-no-sparse", "-exit-on-error", "-percentage", "-mem", MEMORY,
            *settings.arguments(),
        ]
        # Nix sets SOURCE_DATE_EPOCH, which mksquashfs refuses beside time options (case 44).
        # What it says goes to a file: a pipe that nobody empties would stop it.
        with tempfile.TemporaryFile() as said:
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=said, env={"PATH": os.environ.get("PATH", ""),
                                                    "LC_ALL": "C"}) as process:
                telling = threading.Thread(target=_tell, args=(process.stdout, total, progress))
                telling.start()
                try:
                    _feed(rest, process.stdin.fileno())
                except BrokenPipeError:
                    pass  # it has stopped, and says why
                except BaseException:
                    process.kill()
                    raise
                finally:
                    with contextlib.suppress(BrokenPipeError):
                        process.stdin.close()
                    telling.join()
            if process.returncode:
                said.seek(0)
                raise _failed(said.read().decode(errors="replace"), out)


def _tell(percentages: BinaryIO, total: int, progress: Callable[[int], None]) -> None:
    """mksquashfs tells percentages, each in a line; progress counts bytes."""
    done = 0
    for line in percentages:
        if line.strip().isdigit():
            now = total * int(line) // 100
            progress(now - done)
            done = now


def _failed(said: str, out: Path) -> UserError:
    full = "No space left" in said or "quota" in said.lower()
    return UserError(
        "the disk is full" if full else "mksquashfs failed", where=out.parent,
        got=said.strip()[-2000:],
        next_step="make room and run it again" if full else "see its words above")


def _feed(nodes: list[Node], pipe: int) -> None:
    widen(pipe)
    lying = {node.path for node in nodes if _lies(node)}
    lines, waiting = [], 0
    for line in definitions(nodes, lying):
        lines.append(line)
        waiting += len(line)
        if waiting >= BATCH:
            write_all(pipe, b"".join(lines))
            lines, waiting = [], 0
    write_all(pipe, b"".join(lines))
    for node in nodes:
        if node.path not in lying:
            for piece in node.pieces:
                send(piece, pipe)


def _lies(node: Node) -> bool:
    """Whether a file on disk is the node as it is, so that mksquashfs can read it itself."""
    if len(node.pieces) != 1 or not (piece := node.pieces[0]).file or "\n" in piece.file:
        return False
    try:
        status = os.stat(piece.file)  # noqa: PTH116 - there are a hundred thousand
    except OSError:
        return False  # what is wrong is told where it is read
    return (status.st_size, stat.S_IMODE(status.st_mode)) == (node.size, node.mode) and (
        stat.S_ISREG(status.st_mode))
