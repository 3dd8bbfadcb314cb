"""Why a layer's bytes are no longer those that its digest was made of (case 2).

A digest says that something changed, not what. The manifests that builders write beside
their trees say what every path was, so the first entry and field that differ can be named.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.oci.layer import Layer, digest
from apertus_image.oci.merge import Entry, merged
from apertus_image.tree import manifest

__all__ = ["difference", "verify"]

STORE_MODES = {"file": (0o444, 0o555), "dir": (0o555,), "link": ()}
REPAIR = "nix-store --verify --check-contents --repair, or delete the store path and build again"


def verify(layer: Layer, recorded: Iterable[manifest.Entry] = (),
           physical: Callable[[str], Path] = Path) -> None:
    """Read a layer's store paths again and compare with its digest.

    Args:
        recorded: the manifests of its trees. Without them, only what no store path may be
            (a mode, a missing path) can be named, and the digests.
        physical: where a store path lies on this machine.

    Raises:
        UserError: they differ; the first entry and field that do, in the tar's order.
    """
    found = digest(layer.paths, physical)
    if found != (layer.digest, layer.size):
        raise difference(layer, recorded, found, physical)


def difference(layer: Layer, recorded: Iterable[manifest.Entry], found: tuple[str, int],
               physical: Callable[[str], Path] = Path) -> UserError:
    """The error for a layer whose bytes came out otherwise: digest and size as `found`."""
    what = f"layer {layer.digest} is no longer what was built"
    now = (entry for entry in merged(layer.paths, physical) if entry.source)
    for where, field, expected, got in _differences(recorded, now):
        return UserError(what, where=f"{where}: its {field}", expected=expected, got=got,
                         next_step=REPAIR)
    return UserError(what, where=", ".join(path.path for path in layer.paths),
                     expected=f"{layer.digest}, {layer.size} bytes",
                     got=f"{found[0]}, {found[1]} bytes", next_step=REPAIR)


def _differences(recorded: Iterable[manifest.Entry], now: Iterable[Entry]
                 ) -> Iterator[tuple[str, str, object, object]]:
    """(path, field, recorded, now), in the tar's order."""
    before = {entry.path: entry for entry in recorded}
    after = {entry.name: entry for entry in now}
    for path in sorted(before.keys() | after.keys(), key=_order):
        if path not in after:
            yield path, "presence", before[path].type, "missing"
        elif before and path not in before:
            yield path, "presence", "absent", after[path].type
        else:
            yield from _fields(after[path], before.get(path))


def _order(path: str) -> list[bytes]:
    return [os.fsencode(part) for part in path.split("/")]


def _fields(entry: Entry, was: manifest.Entry | None) -> Iterator[tuple[str, str, object, object]]:
    if was is not None and was.type != entry.type:
        yield entry.name, "type", was.type, entry.type
        return
    mode = stat.S_IMODE(os.lstat(entry.source).st_mode)
    wanted = STORE_MODES[entry.type]
    if was is not None and was.type == "file":
        wanted = (0o555 if was.executable else 0o444,)
    ruled = mode != entry.mode  # by a perms rule, so that the store's mode does not count
    if wanted and mode not in wanted and not ruled:
        yield entry.name, "mode", " or ".join(f"{each:04o}" for each in wanted), f"{mode:04o}"
    if was is None:
        return
    if (was.target or "") != entry.target:
        yield entry.name, "target", was.target, entry.target
    if entry.type == "file" and was.size != entry.size:
        yield entry.name, "size", was.size, entry.size
    elif entry.type == "file" and (found := _sha256(entry.source)) != was.sha256:
        yield entry.name, "content", f"sha256:{was.sha256}", f"sha256:{found}"


def _sha256(file: str) -> str:
    with Path(file).open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
