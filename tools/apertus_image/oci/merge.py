"""Several store paths merged into the one tree that a layer holds.

The walk is nix2container's (nix/graph.go at the pinned revision): depth first, the names
of a directory sorted by bytes, a directory before what it holds. Where it refuses a
conflict, so does this, naming both sources and a remedy; but a rule of one source binds
only the entries it matches, so two sources with different rules may share a directory
(nlewo/nix2container#140, case 3).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.oci.paths import LayerPath, Perm, expression

__all__ = ["Entry", "merged"]

IMPLIED_MODE = 0o755


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a layer, as its tar header will say it.

    Attributes:
        name: absolute path in the image.
        type: `dir`, `file` or `link`.
        mode: permission bits, rules applied.
        size: bytes of a file, 0 otherwise.
        target: of a link.
        source: where it lies on disk; None for a directory that no source has itself.
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
    source: Path | None = None


@dataclass(slots=True)
class _Node:
    entry: Entry | None = None
    origin: str = ""
    store_mode: int = 0
    children: dict[str, _Node] = field(default_factory=dict)


def merged(paths: Iterable[LayerPath], physical=Path) -> Iterator[Entry]:
    """The entries of a layer, in the order of its tar.

    Args:
        paths: the layer's store paths.
        physical: where a store path lies on this machine (trap 11).

    Raises:
        UserError: two sources bring one path with different type, mode, size or owner; a
            rule cannot be used; a store path is gone.
    """
    root = _Node()
    for path in paths:
        rules = [(expression(perm.regex), perm) for perm in path.perms]
        for source, status in _walk(path.path, physical(path.path)):
            target = path.target(source)
            if target:
                _add(root, path, source, target, status, rules, physical)
    yield from _in_order(root, "")


def _walk(path: str, folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below a store path, itself first: (store path, lstat)."""
    try:
        status = folder.lstat()
    except FileNotFoundError as error:
        raise UserError("a store path of the image is gone", where=path,
                        next_step="tools/build brings it back") from error
    yield path, status
    if stat.S_ISDIR(status.st_mode):
        with os.scandir(folder) as found:
            children = sorted(found, key=lambda child: os.fsencode(child.name))
        for child in children:
            if child.is_dir(follow_symlinks=False):
                yield from _walk(f"{path}/{child.name}", Path(child.path))
            else:
                yield f"{path}/{child.name}", child.stat(follow_symlinks=False)


def _add(root, path: LayerPath, source: str, target: str, status, rules, physical) -> None:
    node = root
    clean = os.path.normpath(target).replace("//", "/")  # POSIX lets a leading `//` be special
    for part in [""] if clean == "/" else clean.split("/"):
        node = node.children.setdefault(part, _Node())
    location = physical(path.path)
    inside = source[len(path.path) :]
    entry = _entry(clean, status, Path(f"{location}{inside}") if inside else location,
                   [perm for regex, perm in rules if regex.search(source)])
    if node.entry is not None:
        _agree(node, entry, source, status)
    node.entry, node.origin = entry, source
    node.store_mode = 0 if entry.type == "link" else stat.S_IMODE(status.st_mode)


def _entry(name: str, status, source: Path, perms: list[Perm]) -> Entry:
    """An entry's header fields; canonical, not what the host's lstat says of a link."""
    fields = {"uid": 0, "gid": 0, "uname": "root", "gname": "root"}
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
    for perm in perms:
        fields |= {"uid": perm.uid, "gid": perm.gid}
        fields["uname"] = perm.uname or fields["uname"]
        fields["gname"] = perm.gname or fields["gname"]
        mode = int(perm.mode, 8) if perm.mode else mode
    return Entry(name, kind, mode, size, target, source=source, **fields)


def _agree(node: _Node, entry: Entry, source: str, status) -> None:
    """Refuse what differs in type, mode, size or owner; the last source of equals wins."""
    other = node.entry
    mode = 0 if entry.type == "link" else stat.S_IMODE(status.st_mode)
    same_rule = "give both sources the same perms rule for it"
    for what, was, now, remedy in (
        ("type", other.type, entry.type, "rename it in one source"),
        ("mode", f"{node.store_mode:04o}", f"{mode:04o}",
         "make it executable in both sources or in neither"),
        ("size", other.size, entry.size, "use one version in both sources"),
        ("mode by a rule", f"{other.mode:04o}", f"{entry.mode:04o}", same_rule),
        ("owner by a rule", _owner(other), _owner(entry), same_rule),
    ):
        if was != now:
            raise UserError(
                f"two sources bring one path with different {what}", where=entry.name,
                expected=f"{was}, as {node.origin} has it", got=f"{now}, from {source}",
                next_step=f"leave it out of one of them, or {remedy}",
            )


def _owner(entry: Entry) -> str:
    return f"{entry.uid} ({entry.uname}), group {entry.gid} ({entry.gname})"


def _in_order(node: _Node, base: str) -> Iterator[Entry]:
    for name in sorted(node.children, key=os.fsencode):
        child = node.children[name]
        path = "/" if name == "" else f"{base.rstrip('/')}/{name}"
        yield child.entry or Entry(path, "dir", IMPLIED_MODE)
        yield from _in_order(child, path)
