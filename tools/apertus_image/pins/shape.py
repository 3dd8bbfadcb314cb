"""What a lock must look like, field by field, so that no later step meets a surprise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError

__all__ = ["faults"]

Check = tuple[str, Callable[[object], bool]]
"""What a value should be, in words, and whether it is."""


def faults(lock: dict[str, Any], file: Path) -> Iterator[UserError]:
    """What cannot be true: a part that is missing or malformed, a name that is pinned twice.

    Args:
        file: where the lock was read from; its name alone is looked at.
    """
    kind = lock.get("kind")
    if not isinstance(kind, str) or kind not in HEADS:
        yield _fault("a lock is of an unknown kind", file.name, ", ".join(HEADS), kind, file)
        return
    for field, (expected, holds) in (HEADS[kind] | BY_NAME.get(file.name, {})).items():
        if not holds(lock.get(field)):
            yield _fault(f"a lock's {field} is missing or malformed", file.name, expected,
                         lock.get(field), file)
    for section in SECTIONS[kind]:
        pins = lock.get(section)
        if not isinstance(pins, list) or not all(isinstance(pin, dict) for pin in pins):
            yield _fault("a lock has no list of pins", f"{file.name}, {section}",
                         "a list of objects", type(pins).__name__, file)
        else:
            yield from _pins(pins, PINS[kind], f"{file.name}, {section}", file)


def _pins(
    pins: list[dict[str, Any]], fields: dict[str, Check], where: str, file: Path
) -> Iterator[UserError]:
    seen = set()
    for pin in pins:
        name = str(pin.get("name"))
        for field, (expected, holds) in fields.items():
            if not holds(pin.get(field)):
                what = {"sha256": "hash"}.get(field, field)
                yield _fault(f"a pin's {what} is malformed", f"{where}, {name}", expected,
                             pin.get(field), file)
        if name in seen:
            yield UserError("a name is pinned twice", where=f"{where}, {name}",
                            next_step=f"tools/lock {file.stem}")
        seen.add(name)


def _fault(what: str, where: str, expected: str, got: object, file: Path) -> UserError:
    return UserError(what, where=where, expected=expected, got=got,
                     next_step=f"git checkout {file.name}, or tools/lock {file.stem}")


def _matches(pattern: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _bytes(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _checksums(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_matches(SHA256), value.values()))


def _trees(value: object) -> bool:
    return _checksums(value) and set(value) == set(SECTIONS["wheels"])


def _modules(value: object) -> bool:
    return isinstance(value, dict) and _matches(r"\S+")(value.get("name")) and _matches(
        r"sha256-[0-9A-Za-z+/]{43}=")(value.get("vendorHash"))


SHA256 = r"[0-9a-f]{64}"
SECTIONS = {"wheels": ("x86_64", "aarch64"), "tools": ("x86_64", "aarch64"),
            "debian": ("amd64", "arm64"), "go": ()}
REQUIREMENTS: dict[str, Check] = {
    "requirements": ("file name -> SHA-256 of what the lock was made from", _checksums),
}
HEADS: dict[str, dict[str, Check]] = {
    "wheels": REQUIREMENTS | {
        "exclude_newer": ("a date", _matches(r"\d{4}-\d\d-\d\d")),
    },
    "tools": REQUIREMENTS,
    "debian": REQUIREMENTS | {
        "release": ("a point release", _matches(r"\d+\.\d+")),
        "date": ("a date as in a Release file", _matches(r"\w{3}, .+ UTC")),
    },
    "go": {
        "nix2container": ("a name and a vendorHash", _modules),
    },
}
BY_NAME: dict[str, dict[str, Check]] = {
    "bootstrap.json": {"tree": ("machine -> hash of the unpacked packages' NAR", _trees)},
}
PIN: dict[str, Check] = {
    "name": ("a package's name", _matches(r"[0-9a-z][0-9a-z+.-]*")),
    "version": ("a version", _matches(r"\S+")),
    "sha256": ("64 hexadecimal digits", _matches(SHA256)),
    "size": ("a number of bytes", _bytes),
}
WHEEL = PIN | {
    "file": ("a wheel's file name", _matches(r"[^/\s]+\.whl")),
    "tags": ("a list of wheel tags", _texts),
    "requires": ("a list of requirements", _texts),
}
PINS: dict[str, dict[str, Check]] = {
    "wheels": WHEEL,
    "tools": WHEEL,
    "debian": PIN | {
        "architecture": ("a Debian architecture", _matches(r"all|amd64|arm64")),
        "path": ("a path below a mirror", _matches(r"pool/(?!.*\.\./)\S+\.deb")),
    },
}
