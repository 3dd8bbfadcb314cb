"""Which of two Debian versions is the earlier (deb-version(7), "Sorting algorithm")."""

from __future__ import annotations

import re

__all__ = ["earlier"]


def earlier(one: str, other: str) -> bool:
    """Whether a version sorts before another.

    >>> earlier("1.0~rc1", "1.0"), earlier("2:1", "1:9"), earlier("1.10", "1.9")
    (True, False, False)
    """
    return _key(one) < _key(other)


def _key(version: str) -> tuple:
    epoch, colon, rest = version.partition(":")
    if not colon or not epoch.isdigit():
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return int(epoch), _part(upstream), _part(revision or "0")


def _part(text: str) -> list[tuple[list[int], int]]:
    """Runs of other characters and of digits by turns; an end sorts between `~` and the rest."""
    runs = re.findall(r"(\D*)(\d*)", text)
    found = [([_weight(each) for each in letters] + [0], int(digits or 0))
             for letters, digits in runs if letters or digits]
    return [*found, ([0], 0)]


def _weight(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256
