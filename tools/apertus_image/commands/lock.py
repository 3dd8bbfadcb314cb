"""tools/lock: pin what the requirement files ask for."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import requests

from apertus_image.commands.project import PINS, PROJECT, setup_option, store_option
from apertus_image.errors import UserError
from apertus_image.fetch import bootstrap, plan, sources
from apertus_image.fetch.download import download
from apertus_image.fetch.prefetch import places
from apertus_image.patch.lock import folders, relock
from apertus_image.pins import lockfile
from apertus_image.resolve import apt, gone, wheels
from apertus_image.resolve.compare import differences
from apertus_image.store.store import Store
from apertus_image.tree.machine import MACHINES
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]

DEBIAN = tuple(apt.WORLDS)
KINDS = ("all", "wheels", "debian", *DEBIAN, "patches")
DIFFERS = 10


@click.command()
@click.argument("kind", type=click.Choice(KINDS), default="all")
@click.option("--check", is_flag=True,
              help="Change nothing; tell what would change. Exit code 10 if anything would.")
@click.option("--gone", "only_gone", is_flag=True,
              help="Debian only: pin anew the packages that no mirror has any more.")
@store_option
@setup_option
@command_errors
def main(kind: str, check: bool, only_gone: bool, store: Store) -> None:
    """Resolve requirements of a KIND and write its lock; show what moved.

    wheels: nix/pins/requirements.in, by uv. debian: nix/pins/*.packages, by apt.
    patches: the hashes in nix/patches, from the pinned wheels.

    \b
    Example:
      tools/lock wheels
      tools/lock --check
      tools/lock debian --gone
    """
    if only_gone and kind not in ("debian", *DEBIAN):
        raise UserError("--gone is about Debian packages", got=kind,
                        next_step="tools/lock debian --gone")
    moved = 0
    for each in _kinds(kind):
        click.echo(f"{each}: resolving", err=True)
        if each == "patches":
            moved += _patches(store, write=not check)
            continue
        file = PINS / f"{each}.json"
        old = lockfile.read(file) if file.exists() else None
        new = _resolved(each, old, only_gone)
        lines = differences(old, new)
        for line in lines:
            click.echo(f"{each}: {line}")
        if lines and not check:
            lockfile.write(new, file)
        moved += len(lines)
    click.echo(f"{moved} changes" + (", none of them written" if check and moved else ""), err=True)
    if check and moved:
        sys.exit(DIFFERS)


def _kinds(kind: str) -> tuple[str, ...]:
    return {"all": ("wheels", *DEBIAN, "patches"), "debian": DEBIAN}.get(kind, (kind,))


def _resolved(kind: str, old: dict[str, Any] | None, only_gone: bool) -> dict[str, Any]:
    if kind == "wheels":
        def progress(label: str, total: int) -> Callable[[int], None]:
            return Progress(label, total, form=lambda amount: f"{amount:.0f}").add

        return wheels.resolve(PINS, progress)
    mirrors = sources.debian_mirrors()
    if only_gone and old:
        new = gone.replaced(old, _lost(kind, mirrors), lambda: apt.resolve(kind, PINS, mirrors))
    else:
        new = apt.resolve(kind, PINS, mirrors)
    return _with_tree(new, mirrors) if kind == "bootstrap" else new


def _lost(kind: str, mirrors: list[str]) -> dict[str, set[str]]:
    snapshots = sources.debian_snapshots()
    with requests.Session() as session:
        session.verify = sources.ca_bundle() or True
        return {
            architecture: gone.gone(session, plan.debs(PINS / f"{kind}.json", architecture),
                                    mirrors, snapshots)
            for architecture in apt.ARCHITECTURES
        }


def _with_tree(lock: dict[str, Any], mirrors: list[str]) -> dict[str, Any]:
    """The bootstrap's lock with the hash of its unpacked tree, for each machine."""
    trees = {}
    with requests.Session() as session, tempfile.TemporaryDirectory() as scratch:
        session.verify = sources.ca_bundle() or True
        for machine in MACHINES.values():
            debs = []
            for each in plan.inputs_of(lock, machine.debian):
                here = places(each, mirrors, sources.debian_snapshots())
                debs.append((each.name, download(session, each.pin, here, Path(scratch, "debs"))))
            folder = Path(scratch, machine.name)
            bootstrap.unpack(debs, folder)
            trees[machine.name] = bootstrap.nar_sha256(folder)
    head = {key: value for key, value in lock.items() if key not in apt.ARCHITECTURES}
    return head | {"tree": trees} | {a: lock[a] for a in apt.ARCHITECTURES}


def _patches(store: Store, write: bool) -> int:
    changes = relock(folders(PROJECT / "nix/patches"), _wheel(store), write=write)
    for change in changes:
        click.echo(f"patches: {change.patch}: {change.path}: {change.which} "
                   f"{(change.old or 'none')[:12]} -> {change.new[:12]}")
    return len(changes)


def _wheel(store: Store) -> Callable[[str, str], Path]:
    pinned = plan.wheels(PINS / "wheels.json", "x86_64") + plan.wheels(PINS / "wheels.json",
                                                                       "aarch64")

    def find(name: str, version: str) -> Path:
        paths = [each.store_path for each in pinned if (each.name, each.version) == (name, version)]
        if not paths:
            raise UserError("a patch is for a wheel that is not pinned", got=f"{name} {version}",
                            next_step="mend its patch.json")
        valid = store.valid(paths)
        if not valid:
            raise UserError("a patched wheel is not in the store", where=f"{name} {version}",
                            next_step="tools/prefetch")
        return store.physical(sorted(valid)[0])

    return find


if __name__ == "__main__":
    main(prog_name="tools/lock")
