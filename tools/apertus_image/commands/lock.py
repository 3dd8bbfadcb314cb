"""tools/lock: pin what the requirement files ask for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from apertus_image.build import maker
from apertus_image.commands.project import PINS, PROJECT, setup_option, store_option
from apertus_image.errors import UserError, raise_all
from apertus_image.fetch import plan, sources
from apertus_image.patch.lock import folders, relock
from apertus_image.pins import lockfile
from apertus_image.pins.shape import faults
from apertus_image.resolve import debian, go, tools, wheels
from apertus_image.resolve.apt import Suite
from apertus_image.resolve.compare import differences
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]

DEBIAN = tuple(debian.WORLDS)
KINDS = ("all", "wheels", "tools", "debian", *DEBIAN, "go", "patches")
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
    tools: which files of requirements.lock tools/bootstrap takes, for either machine.
    go: the hash of nix2container's modules, from its own source, as flake.lock pins it.
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
    with Suite(sources.debian_mirrors()) as suite:
        for each in _kinds(kind):
            if each == "go" and kind == "all" and not _go_source(store):
                click.echo("go: not resolved: nix2container's source is not in the store", err=True)
                continue
            click.echo(f"{each}: resolving", err=True)
            moved += (_patches(store, write=not check) if each == "patches"
                      else _lock(each, suite, store, check=check, only_gone=only_gone))
    click.echo(f"{moved} changes" + (", none of them written" if check and moved else ""), err=True)
    if check and moved:
        sys.exit(DIFFERS)


def _kinds(kind: str) -> tuple[str, ...]:
    several = {"all": ("wheels", "tools", *DEBIAN, "go", "patches"), "debian": DEBIAN}
    return several.get(kind, (kind,))


def _lock(kind: str, suite: Suite, store: Store, *, check: bool, only_gone: bool) -> int:
    """Make one lock anew, write it where it differs; how many differences there are."""
    file = PINS / f"{kind}.json"
    if only_gone:
        old = lockfile.load(file)
        new = debian.repin_gone(kind, old, PINS, suite)
    else:
        old, new = _old(file), _resolved(kind, suite, store)
    lines = differences(old, new)
    for line in lines:
        click.echo(f"{kind}: {line}")
    if lines and not check:
        lockfile.write(new, file)
    return len(lines)


def _old(file: Path) -> dict[str, Any] | None:
    """The lock there is; none where it is of no use, since a new one is made anyway."""
    if not file.exists():
        return None
    try:
        old = lockfile.read(file)
        raise_all(faults(old, file), f"{file.name} has {{n}} faults")
    except UserError as error:
        click.echo(f"{file.name} cannot be compared with: {error.what}", err=True)
        return None
    return old


def _resolved(kind: str, suite: Suite, store: Store) -> dict[str, Any]:
    def progress(label: str, total: int) -> Callable[[int], None]:
        return Progress(label, total, form=lambda amount: f"{amount:.0f}").add

    if kind == "wheels":
        return wheels.resolve(PINS, progress)
    if kind == "tools":
        return tools.resolve(PROJECT, PINS)
    if kind == "go":
        source = _go_source(store) or maker.source(PROJECT, store)
        return go.resolve(source, PROJECT / "nix/toolchain/lib.nix", store.nix_args())
    return debian.resolve(kind, PINS, suite)


def _go_source(store: Store) -> Path | None:
    """nix2container's source if the store has it."""
    path, _ = maker.locked_source(PROJECT)
    return store.physical(path) if store.valid([path]) else None


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
