"""Several store paths merged into the one tree that a layer holds.

The order is nix2container's (nix/graph.go at the pinned revision): depth first, the names
of a directory sorted by bytes, a directory before what it holds. Where it refuses a
conflict, so does this, naming both sources and a remedy; but a rule of one source binds
only the entries it matches, so two sources with different rules may share a directory
(nlewo/nix2container#140, case 3).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from apertus_image.errors import UserError
from apertus_image.oci.paths import LayerPath, Perm, expression

__all__ = ["Entry", "merged"]

IMPLIED_MODE = 0o755


class Entry(NamedTuple):
    """One entry of a layer, as its tar header will say it.

    Attributes:
        name: absolute path in the image.
        type: `dir`, `file` or `link`.
        mode: permission bits, rules applied.
        size: bytes of a file, 0 otherwise.
        target: of a link.
        source: where it lies on disk; empty for a directory that no source has itself.
    """

    name: str
    type: str
    mode: int
    size: int = 0
    target: str = ""
    uid: int = 0
    gid: int = 0
    uname: str = "root"
    gname: str = "root"
    source: str = ""


class _Found(NamedTuple):
    entry: Entry
    origin: str = ""
    store_mode: int = 0


def merged(paths: Iterable[LayerPath], physical: Callable[[str], Path] = Path) -> Iterator[Entry]:
    """The entries of a layer, in the order of its tar.

    Args:
        paths: the layer's store paths.
        physical: where a store path lies on this machine (trap 11).

    Raises:
        UserError: two sources bring one path with different type, mode, size or owner; a
            rule cannot be used; a store path is gone.
    """
    tree: dict[str, _Found] = {}
    for path in paths:
        rules = [(expression(perm.regex), perm) for perm in path.perms]
        for origin, source, status in _walk(path.path, str(physical(path.path))):
            target = path.target(origin)
            if not target:
                continue
            name = _clean(target)
            perms = [perm for regex, perm in rules if regex.search(origin)] if rules else []
            entry = _entry(name, status, source, perms)
            mode = 0 if entry.type == "link" else stat.S_IMODE(status.st_mode)
            found = _Found(entry, origin, mode)
            if name in tree:
                _agree(tree[name], found)
            else:
                _imply_parents(tree, name)
            tree[name] = found
    for name in sorted(tree, key=_order):
        yield tree[name].entry


def _order(name: str) -> bytes:
    # No name holds a zero byte, so this sorts as a list of the names would.
    return os.fsencode(name).replace(b"/", b"\0")


def _clean(target: str) -> str:
    if "//" in target or "/." in target or target.endswith("/"):
        # POSIX lets a leading `//` be special.
        return os.path.normpath(target).replace("//", "/")
    return target


def _imply_parents(tree: dict[str, _Found], name: str) -> None:
    while name != "/" and "/" in name:
        name = name.rpartition("/")[0] or "/"
        if name in tree:
            return
        tree[name] = _Found(Entry(name, "dir", IMPLIED_MODE))


def _walk(path: str, folder: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """Every path below a store path, itself first: (store path, where it lies, lstat)."""
    try:
        status = os.lstat(folder)
    except FileNotFoundError as error:
        raise UserError("a store path of the image is gone", where=path,
                        next_step="tools/build brings it back") from error
    yield path, folder, status
    pending = [(path, folder)] if stat.S_ISDIR(status.st_mode) else []
    while pending:
        path, folder = pending.pop()
        with os.scandir(folder) as found:
            children = sorted(found, key=lambda child: child.name)
        for child in children:
            name, status = f"{path}/{child.name}", child.stat(follow_symlinks=False)
            yield name, child.path, status
            if stat.S_ISDIR(status.st_mode):
                pending.append((name, child.path))


def _entry(name: str, status: os.stat_result, source: str, perms: list[Perm]) -> Entry:
    """An entry's header fields; canonical, not what the host's lstat says of a link."""
    mode = stat.S_IMODE(status.st_mode)
    kind, size, target = "file", status.st_size, ""
    if stat.S_ISLNK(status.st_mode):
        # Links have no mode of their own; hosts report 0777 or 0755 (case 1).
        kind, size, mode = "link", 0, 0o777
        target = os.readlink(source)  # Path.readlink would tidy `a//b`
    elif stat.S_ISDIR(status.st_mode):
        kind, size = "dir", 0
    elif not stat.S_ISREG(status.st_mode):
        raise UserError("an image can hold files, folders and links only", where=source,
                        got=f"file mode {status.st_mode:o}")
    uid, gid, uname, gname = 0, 0, "root", "root"
    for perm in perms:
        uid, gid = perm.uid, perm.gid
        uname, gname = perm.uname or uname, perm.gname or gname
        mode = int(perm.mode, 8) if perm.mode else mode
    return Entry(name, kind, mode, size, target, uid, gid, uname, gname, source)


def _agree(before: _Found, found: _Found) -> None:
    """Refuse what differs in type, mode, size or owner; the last source of equals wins.

    A directory that is there only because of what it holds agrees with one that a source has.
    """
    other, entry = before.entry, found.entry
    if not before.origin and entry.type == "dir":
        return
    same_rule = "give both sources the same perms rule for it"
    for what, was, now, remedy in (
        ("type", other.type, entry.type, "rename it in one source"),
        ("mode", f"{before.store_mode:04o}", f"{found.store_mode:04o}",
         "make it executable in both sources or in neither"),
        ("size", other.size, entry.size, "use one version in both sources"),
        ("mode by a rule", f"{other.mode:04o}", f"{entry.mode:04o}", same_rule),
        ("owner by a rule", _owner(other), _owner(entry), same_rule),
    ):
        if was != now:
            raise UserError(
                f"two sources bring one path with different {what}", where=entry.name,
                expected=f"{was}, as {before.origin or 'what lies in it'} has it",
                got=f"{now}, from {found.origin}",
                next_step=f"leave it out of one of them, or {remedy}",
            )


def _owner(entry: Entry) -> str:
    return f"{entry.uid} ({entry.uname}), group {entry.gid} ({entry.gname})"
