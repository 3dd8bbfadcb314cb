"""A stub shared library: names to link against, and nothing behind them.

The driver's libcuda.so.1 comes from the host when a container starts, but linking wants a
libcuda.so now (trap 13). NVIDIA's stub is in no wheel, so this writes one, byte by byte:
no compiler for the target is at hand. Every function returns CUDA_ERROR_STUB_LIBRARY, as
NVIDIA's does. Source: System V ABI, chapters 4 and 5, and its x86-64 and AArch64
supplements.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from apertus_image.tree.machine import Machine

__all__ = ["driver_functions", "stub"]

ERROR_STUB_LIBRARY = 34

# `return 34;`
CODE = {
    "x86_64": bytes([0xB8, ERROR_STUB_LIBRARY, 0, 0, 0, 0xC3]),  # mov eax, 34; ret
    "aarch64": struct.pack("<II", 0x52800000 | ERROR_STUB_LIBRARY << 5, 0xD65F03C0),
}

ALIGN = 0x10000  # AArch64 pages have up to 64 KiB
SYMBOL = struct.Struct("<IBBHQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SEGMENT = struct.Struct("<IIQQQQQQ")
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")

SHT_PROGBITS, SHT_STRTAB, SHT_HASH, SHT_DYNAMIC, SHT_DYNSYM = 1, 3, 5, 6, 11
SHF_WRITE, SHF_ALLOC, SHF_EXEC = 1, 2, 4
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
DT_NULL, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_SONAME = 0, 4, 5, 6, 10, 11, 14


def driver_functions(header: str) -> list[str]:
    """The symbols that programs including this cuda.h may need, sorted.

    A declaration gives a name, a macro like `#define cuMemAlloc cuMemAlloc_v2` the name it
    really has, and one like `#define cuMemcpy __CUDA_API_PTDS(cuMemcpy)` another for
    programs built with CUDA_API_PER_THREAD_DEFAULT_STREAM.
    """
    declared = re.findall(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(", header)
    renamed = re.findall(r"(?m)^\s*#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*)\s*$", header)
    streams = re.findall(r"\b__CUDA_API_(PTDS|PTSZ)\(\s*(cu[A-Z]\w*)\s*\)", header)
    plain = (name for _, name in streams)
    per_thread = (f"{name}_{kind.lower()}" for kind, name in streams)
    return sorted({*declared, *renamed, *plain, *per_thread})


@dataclass
class _Section:
    name: str
    type: int
    flags: int
    data: bytes
    align: int
    link: int = 0
    info: int = 0
    entry: int = 0
    offset: int = 0


def stub(soname: str, functions: Iterable[str], target: Machine) -> bytes:
    """The bytes of a shared library with these functions.

    Args:
        soname: what programs linked with it will ask the loader for.
        functions: names of its functions.
    """
    names = sorted(set(functions))
    strings, offsets = _strings([*names, soname])
    code = CODE[target.name]
    hashes = _hash_table(names)
    symbols_size = SYMBOL.size * (len(names) + 1)
    sections = [
        _Section("", 0, 0, b"", 1),
        _Section(".hash", SHT_HASH, SHF_ALLOC, hashes, 8, link=2, entry=4),
        _Section(".dynsym", SHT_DYNSYM, SHF_ALLOC, bytes(symbols_size), 8, link=3, info=1,
                 entry=SYMBOL.size),
        _Section(".dynstr", SHT_STRTAB, SHF_ALLOC, strings, 1),
        _Section(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXEC, code, 16),
        _Section(".dynamic", SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, bytes(16 * 7), ALIGN, link=3,
                 entry=16),
    ]
    names_of_sections, section_offsets = _strings([s.name for s in sections] + [".shstrtab"])
    sections.append(_Section(".shstrtab", SHT_STRTAB, 0, names_of_sections, 1))
    position = HEADER.size + SEGMENT.size * 4
    for section in sections[1:]:
        section.offset = position = -(-position // section.align) * section.align
        position += len(section.data)
    _, hash_, dynsym, dynstr, text, dynamic, _ = sections
    dynsym.data = SYMBOL.pack(0, 0, 0, 0, 0, 0) + b"".join(
        SYMBOL.pack(offsets[name], 1 << 4 | 2, 0, 4, text.offset, len(code)) for name in names
    )
    dynamic.data = b"".join(struct.pack("<QQ", tag, value) for tag, value in (
        (DT_SONAME, offsets[soname]), (DT_HASH, hash_.offset), (DT_STRTAB, dynstr.offset),
        (DT_SYMTAB, dynsym.offset), (DT_STRSZ, len(strings)), (DT_SYMENT, SYMBOL.size),
        (DT_NULL, 0),
    ))
    end = text.offset + len(code)
    segments = b"".join(SEGMENT.pack(*fields) for fields in (
        (PT_LOAD, 5, 0, 0, 0, end, end, ALIGN),
        (PT_LOAD, 6, *[dynamic.offset] * 3, *[len(dynamic.data)] * 2, ALIGN),
        (PT_DYNAMIC, 6, *[dynamic.offset] * 3, *[len(dynamic.data)] * 2, 8),
        (PT_GNU_STACK, 6, 0, 0, 0, 0, 0, 16),
    ))
    table = -(-position // 8) * 8
    identification = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = HEADER.pack(identification, 3, target.elf_machine, 1, 0, HEADER.size, table, 0,
                         HEADER.size, SEGMENT.size, 4, SECTION.size, len(sections),
                         len(sections) - 1)
    image = bytearray(table)
    image[: len(header) + len(segments)] = header + segments
    for section in sections[1:]:
        image[section.offset : section.offset + len(section.data)] = section.data
    for section in sections:
        address = section.offset if section.flags & SHF_ALLOC else 0
        image += SECTION.pack(section_offsets[section.name], section.type, section.flags, address,
                              section.offset, len(section.data), section.link, section.info,
                              section.align, section.entry)
    return bytes(image)


def _strings(texts: list[str]) -> tuple[bytes, dict[str, int]]:
    """A string table and where each string starts in it."""
    table, offsets = bytearray(b"\0"), {"": 0}
    for text in texts:
        if text not in offsets:
            offsets[text] = len(table)
            table += text.encode() + b"\0"
    return bytes(table), offsets


def _hash_table(names: list[str]) -> bytes:
    """A DT_HASH table; symbol numbers start at 1."""
    count = len(names) + 1
    buckets, chains = [0] * count, [0] * count
    for number, name in enumerate(names, 1):
        value = 0
        for byte in name.encode():
            value = (value << 4) + byte
            high = value & 0xF0000000
            value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
        bucket = value % count
        chains[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<II{count}I{count}I", count, count, *buckets, *chains)
