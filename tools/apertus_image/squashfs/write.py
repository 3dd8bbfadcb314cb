"""Writing a SquashFS with mksquashfs, straight from the store: no unpacked copy.

mksquashfs gets an empty folder and a list of pseudo definitions, where a file's bytes are
another file's on disk. The bits depend on the tree and the settings here alone: no time, no
owner, no hard link, no sparse file, no extended attribute, whatever the number of processors
(notes on Enroot, 6).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.squashfs.tree import Node

__all__ = ["FORMAT_VERSION", "Settings", "write"]

FORMAT_VERSION = 1
"""Of the bits: raised whenever the same tree would give another file."""


@dataclass(frozen=True)
class Settings:
    """How a SquashFS is compressed.

    Attributes:
        compressor: mksquashfs's name of it.
        level: of the compressor, None where it has none.
        block: bytes, a power of two up to 1 MiB.
    """

    compressor: str = "zstd"
    level: int | None = 3
    block: int = 1 << 20

    def arguments(self) -> list[str]:
        level = [] if self.level is None else ["-Xcompression-level", str(self.level)]
        return ["-comp", self.compressor, *level, "-b", str(self.block)]


def write(
    nodes: Iterable[Node], out: Path, programs: Path, settings: Settings,
    progress: Callable[[int], None] = lambda _percent: None,
) -> None:
    """Write `out`, which must not exist.

    Args:
        nodes: every path, the root first, a folder before what it holds.
        programs: folder of mksquashfs, from the pinned toolchain.
        progress: told the percentage done.

    Raises:
        UserError: mksquashfs failed, in its own words.
    """
    with tempfile.TemporaryDirectory(prefix="apertus-squashfs-", dir=out.parent) as scratch:
        empty = Path(scratch, "empty")
        empty.mkdir()
        empty.chmod(0o755)  # the root's mode, whatever the umask
        definitions = Path(scratch, "tree")
        texts = Path(scratch, "texts")
        texts.mkdir()
        with definitions.open("wb") as file:
            for number, node in enumerate(nodes):
                file.write(_definition(node, texts / str(number)))
        command = [
            str(programs / "mksquashfs"), str(empty), str(out), "-pf", str(definitions),
            "-all-root", "-mkfs-time", "0", "-all-time", "0", "-noappend", "-no-xattrs",
            "-no-hardlinks", "-no-sparse", "-exit-on-error", "-percentage", *settings.arguments(),
        ]
        # Nix sets SOURCE_DATE_EPOCH, which mksquashfs refuses beside time options (case 44).
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}) as process:
            for line in process.stdout:
                if line.strip().isdigit():
                    progress(int(line))
            said = process.stderr.read()
        if process.returncode:
            full = "No space left" in said
            raise UserError(
                "the disk is full" if full else "mksquashfs failed", where=out.parent,
                got=said.strip()[-2000:],
                next_step="make room and run it again" if full else "see its words above",
            )


def _definition(node: Node, text: Path) -> bytes:
    name = _quoted(node.path)
    if node.type == "dir":
        return b"%s d %o 0 0\n" % (name, node.mode)
    if node.type == "link":
        # The target is the rest of the line, as it stands.
        if "\n" in node.target:
            raise UserError("a link's target holds a line end", where=node.path)
        return b"%s s %o 0 0 %s\n" % (name, node.mode, os.fsencode(node.target))
    # The bytes of a file elsewhere, and its mode: where that is another, a copy has it.
    source = node.source
    if source is None or source.stat().st_mode & 0o7777 != node.mode:
        text.write_bytes(node.text or b"" if source is None else source.read_bytes())
        text.chmod(node.mode)
        source = text
    return b"%s l %s\n" % (name, _quoted(str(source)))


def _quoted(name: str) -> bytes:
    if "\n" in name:
        raise UserError("a name holds a line end, which mksquashfs cannot be told",
                        where=repr(name))
    escaped = re.sub(r'(["\\])', r"\\\1", name)
    return os.fsencode(f'"{escaped}"')
