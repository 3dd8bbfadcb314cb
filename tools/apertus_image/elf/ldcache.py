"""Builder: /etc/ld.so.cache, written here because no target program runs in a build.

    python3 -m apertus_image.elf.ldcache SPEC OUT MANIFEST

Format: glibc's "new" cache, sysdeps/generic/dl-cache.h, as ldconfig 2.41 writes by default.

Spec: {"machine", "roots": [trees, lowest layer first]}.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from apertus_image.elf.ldconfig import Library, libraries
from apertus_image.errors import UserError, run_builder
from apertus_image.tree import manifest
from apertus_image.tree.machine import Machine, machine
from apertus_image.tree.view import View

__all__ = ["CACHE", "build", "parse", "serialise"]

CACHE = "/etc/ld.so.cache"
MAGIC = b"glibc-ld.so.cache1.1"
LITTLE_ENDIAN = 2
HEADER = struct.Struct("<20sIIB3xI12x")
ENTRY = struct.Struct("<iIIIQ")

# FLAG_ELF_LIBC6 with the architecture's own flag (sysdeps/generic/ldconfig.h).
FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03}


def serialise(entries: Sequence[Library], target: Machine) -> bytes:
    """The cache's bytes for entries in the cache's order."""
    strings = bytearray()
    offsets: dict[str, int] = {}
    base = HEADER.size + ENTRY.size * len(entries)

    def offset(text: str) -> int:
        if text not in offsets:
            offsets[text] = base + len(strings)
            strings.extend(text.encode() + b"\0")
        return offsets[text]

    flags = FLAGS[target.name]
    table = b"".join(ENTRY.pack(flags, offset(e.name), offset(e.path), 0, 0) for e in entries)
    return HEADER.pack(MAGIC, len(entries), len(strings), LITTLE_ENDIAN, 0) + table + strings


def parse(data: bytes) -> list[Library]:
    """The entries of a cache.

    Raises:
        UserError: it is none of this format, or cut short.
    """
    if len(data) < HEADER.size or data[:20] != MAGIC:
        raise UserError("not a loader cache", expected=MAGIC.decode(), got=data[:20])
    _, count, _, _, _ = HEADER.unpack_from(data)

    def text(offset: int) -> str:
        return data[offset : data.index(b"\0", offset)].decode()

    try:
        rows = [ENTRY.unpack_from(data, HEADER.size + ENTRY.size * i) for i in range(count)]
        return [Library(text(name), text(path)) for _, name, path, _, _ in rows]
    except (struct.error, ValueError) as error:
        raise UserError("a loader cache that is cut short", expected=f"{count} entries",
                        got=f"{len(data)} bytes") from error


def build(spec: dict, out: Path, manifest_file: Path) -> None:
    """Write etc/ld.so.cache over all libraries of the trees.

    Raises:
        UserError: there is no library at all; a cache of nothing is no cache.
    """
    target = machine(spec["machine"])
    entries = libraries(View(Path(root) for root in spec["roots"]), target)
    if not entries:
        raise UserError("no library for the loader's cache", where=target.name,
                        expected="libraries in the folders of /etc/ld.so.conf")
    file = Path(f"{out}{CACHE}")
    file.parent.mkdir(parents=True)
    file.write_bytes(serialise(entries, target))
    manifest.write(manifest.scan(out, "generated"), manifest_file)


if __name__ == "__main__":
    run_builder(build)
