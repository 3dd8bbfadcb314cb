"""The bootstrap: two static programs, unpacked before anything can be built (trap 6).

An empty sandbox has no program to unpack the first package with. So these two are
unpacked here and added to the store as one fixed-output tree, whose hash the lock has.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from apertus_image.debian.deb import data_members
from apertus_image.errors import UserError
from apertus_image.store.store import Store

__all__ = ["NAME", "add", "nar_sha256", "unpack"]

NAME = "apertus-bootstrap"
PROGRAMS = {"bash-static": "bash", "busybox-static": "busybox"}


def unpack(debs: Iterable[tuple[str, Path]], folder: Path) -> None:
    """Write bin/bash and bin/busybox into `folder`.

    Args:
        debs: (package name, file) of bash-static and busybox-static.
    """
    (folder / "bin").mkdir(parents=True)
    for package, deb in debs:
        wanted = PROGRAMS[package]
        for info, data in data_members(deb):
            if info.isreg() and info.name.rpartition("/")[2] in (wanted, f"{wanted}-static"):
                target = folder / "bin" / wanted
                target.write_bytes(data.read())
                target.chmod(0o555)
                break
        else:
            raise UserError("a package has no static program", where=deb.name, expected=wanted)


def add(debs: Iterable[tuple[str, Path]], system: str, expected: str, store: Store) -> str:
    """Unpack the bootstrap and add it to the store.

    Args:
        system: Nix's name of the build machine, `x86_64-linux` say.
        expected: hex SHA-256 of the tree's NAR, from the lock.

    Raises:
        UserError: the tree is not the locked one.
    """
    with tempfile.TemporaryDirectory(prefix="apertus-bootstrap-") as scratch:
        folder = Path(scratch, f"{NAME}-{system}")
        unpack(debs, folder)
        if (found := nar_sha256(folder)) != expected:
            raise UserError("the bootstrap is not the locked one", where=folder.name,
                            expected=expected, got=found, next_step="tools/lock bootstrap")
        return store.add_tree(folder)


def nar_sha256(path: Path) -> str:
    """SHA-256 (hex) of a tree's NAR serialisation (Nix manual, "Nix Archive format")."""
    digest = hashlib.sha256()

    def text(*parts: bytes) -> None:
        for part in parts:
            digest.update(len(part).to_bytes(8, "little") + part + b"\0" * (-len(part) % 8))

    def node(item: Path) -> None:
        text(b"(", b"type")
        if item.is_symlink():
            target = os.readlink(item)  # Path.readlink would tidy `a//b`
            text(b"symlink", b"target", os.fsencode(target))
        elif item.is_dir():
            text(b"directory")
            for name in sorted(child.name.encode() for child in item.iterdir()):
                text(b"entry", b"(", b"name", name, b"node")
                node(item / name.decode())
                text(b")")
        else:
            text(b"regular")
            if item.stat().st_mode & 0o100:
                text(b"executable", b"")
            text(b"contents", item.read_bytes())
        text(b")")

    text(b"nix-archive-1")
    node(path)
    return digest.hexdigest()
