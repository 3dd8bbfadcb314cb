"""Tar headers as Go's archive/tar writes them for nix2container: ustar, PAX where needed.

Sources: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; the choices
that the standard leaves open are Go's (facts on nix2container, section 3).
"""

from __future__ import annotations

import os
import posixpath

from apertus_image.oci.merge import Entry

__all__ = ["BLOCK", "END", "header", "padding"]

BLOCK = 512
END = bytes(2 * BLOCK)
TYPES = {"file": b"0", "link": b"2", "dir": b"5"}
MTIME = 1
NAME, LINK, PREFIX = 100, 100, 155
OWNER = 32
LARGEST = 8**11 - 1  # what 11 octal digits hold: 8 GiB less one byte
LARGEST_ID = 8**7 - 1


def padding(size: int) -> bytes:
    """What fills the last block of a file."""
    return bytes(-size % BLOCK)


def header(entry: Entry) -> bytes:
    """The header blocks of an entry, its PAX header first where it needs one."""
    name, target = os.fsencode(entry.name), os.fsencode(entry.target)
    uname, gname = entry.uname.encode(), entry.gname.encode()
    split = _split(name)
    records = {}
    if _unfit(target, LINK):
        records[b"linkpath"] = target
    if entry.size > LARGEST:
        records[b"size"] = b"%d" % entry.size
    for key, text in ((b"uname", uname), (b"gname", gname)):
        if _unfit(text, OWNER):
            records[key] = text
    for key, number in ((b"uid", entry.uid), (b"gid", entry.gid)):
        if number > LARGEST_ID:
            records[key] = b"%d" % number
    # Where there is a PAX header anyway, Go puts a long name there that ustar could split.
    if _unfit(name, NAME) and (records or split is None):
        records[b"path"] = name
    if not records:
        prefix, rest = split or (b"", name)
        return _block(entry, rest, target, uname, gname, prefix)
    body = b"".join(_record(key, records[key]) for key in sorted(records))
    folder, _, file = entry.name.rpartition("/")
    pax_name = _ascii(os.fsencode(posixpath.join(folder or "/", "PaxHeaders.0", file)))
    return (
        _pax_block(pax_name[:NAME].rstrip(b"/"), len(body))
        + body + padding(len(body))
        + _block(entry, *map(_ascii, (name, target, uname, gname)), b"")
    )


def _unfit(text: bytes, size: int) -> bool:
    return len(text) > size or not text.isascii()


def _ascii(text: bytes) -> bytes:
    return text if text.isascii() else bytes(byte for byte in text if byte < 0x80)


def _split(name: bytes) -> tuple[bytes, bytes] | None:
    """A long name as (prefix, name), None if it is short or cannot be split."""
    if not _unfit(name, NAME) or not name.isascii():
        return None
    at = name[: PREFIX + 1].rfind(b"/")
    rest = name[at + 1 :]
    if at <= 0 or not 1 <= len(rest) <= NAME:
        return None
    return name[:at], rest


def _record(key: bytes, value: bytes) -> bytes:
    """`LENGTH KEY=VALUE\\n`, the length counting its own digits."""
    size = len(key) + len(value) + 3
    total = size + len(str(size))
    if len(str(total)) > len(str(size)):
        total = size + len(str(total))
    return b"%d %s=%s\n" % (total, key, value)


def _text(text: bytes, size: int) -> bytes:
    """A string field. A cut one may not end in a slash: Go ends it before its last slashes."""
    if len(text) <= size:
        return text.ljust(size, b"\0")
    field = bytearray(text[:size])
    if field[-1:] == b"/":
        field[len(text[: size - 1].rstrip(b"/"))] = 0
    return bytes(field)


def _octal(value: int, size: int) -> bytes:
    return b"%0*o\0" % (size - 1, value)


def _block(entry: Entry, name: bytes, target: bytes, uname: bytes, gname: bytes,
           prefix: bytes) -> bytes:
    # What a PAX record says is zero here.
    uid, gid = (number if number <= LARGEST_ID else 0 for number in (entry.uid, entry.gid))
    size = entry.size if entry.size <= LARGEST else 0
    return _checked(
        _text(name, NAME) + _octal(entry.mode, 8) + _octal(uid, 8) + _octal(gid, 8)
        + _octal(size, 12) + _octal(MTIME, 12),
        TYPES[entry.type] + _text(target, LINK) + b"ustar\x0000"
        + _text(uname, OWNER) + _text(gname, OWNER)
        + _octal(0, 8) + _octal(0, 8) + _text(prefix, PREFIX),
    )


def _pax_block(name: bytes, size: int) -> bytes:
    return _checked(
        _text(name, NAME) + _octal(0, 8) * 3 + _octal(size, 12) + _octal(0, 12),
        b"x" + bytes(LINK) + b"ustar\x0000" + bytes(2 * OWNER + 2 * 8 + PREFIX),
    )


def _checked(before: bytes, after: bytes) -> bytes:
    """A block with its checksum: the sum of all bytes, the field itself counted as blanks."""
    total = sum(before) + 8 * 0x20 + sum(after)
    return (before + b"%06o\0 " % total + after).ljust(BLOCK, b"\0")
