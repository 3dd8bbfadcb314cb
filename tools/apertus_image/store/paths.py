"""Store paths of fixed outputs, computed from name and hash alone.

They depend on nothing else, so prefetch knows where each input belongs before Nix is
asked. Source: Nix manual, "Store path specification"; a test compares with nix-store.
"""

from __future__ import annotations

import hashlib

__all__ = ["STORE", "fixed_output_path"]

STORE = "/nix/store"
ALPHABET = "0123456789abcdfghijklmnpqrsvwxyz"


def fixed_output_path(name: str, sha256: str, *, recursive: bool = False) -> str:
    """The store path of a fixed output.

    Args:
        name: legal store name.
        sha256: hex digest: of the file, or of its NAR serialisation if `recursive`.
        recursive: whether the output is a tree (`outputHashMode = "recursive"`).
    """
    if recursive:
        kind, inner = "source", sha256
    else:
        kind = "output:out"
        inner = hashlib.sha256(f"fixed:out:sha256:{sha256}:".encode()).hexdigest()
    full = hashlib.sha256(f"{kind}:sha256:{inner}:{STORE}:{name}".encode()).digest()
    return f"{STORE}/{_base32(_fold(full, 20))}-{name}"


def _fold(digest: bytes, size: int) -> bytes:
    """A digest shortened by exclusive or, as Nix's compressHash does."""
    folded = bytearray(size)
    for index, byte in enumerate(digest):
        folded[index % size] ^= byte
    return bytes(folded)


def _base32(data: bytes) -> str:
    """Nix's own base 32: its own alphabet, last digit first."""
    number = int.from_bytes(data, "little")
    length = (len(data) * 8 + 4) // 5
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(length)))
