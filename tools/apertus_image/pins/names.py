"""Store names for files whose own names Nix does not allow (trap 3)."""

from __future__ import annotations

import re

__all__ = ["store_name"]

FORBIDDEN = re.compile(r"[^0-9A-Za-z+._?=-]")


def store_name(file_name: str) -> str:
    """The name a file gets in the store; its true name stays in the lock.

    Debian and wheel names carry `~`, `%` and `!`, which a store name may not. Each such
    character becomes `_`, and so does a leading dot. nix/pins/default.nix has the same
    rule; a test compares the two.

    >>> store_name("libpcre2-8-0_10.46-1~deb13u3_amd64.deb")
    'libpcre2-8-0_10.46-1_deb13u3_amd64.deb'
    """
    name = FORBIDDEN.sub("_", file_name)
    return "_" + name[1:] if name.startswith(".") else name
