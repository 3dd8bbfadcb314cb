"""tools/prefetch: every pinned input of an image into the store."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Collection
from pathlib import Path

import click

from apertus_image.build.maker import Maker, choose, source
from apertus_image.build.run import build, root, work
from apertus_image.commands.project import (
    PINS,
    PROJECT,
    maker_option,
    setup_option,
    store_option,
)
from apertus_image.fetch.govendor import expected_path, vendor
from apertus_image.fetch.plan import IMAGES, Bootstrap, Input, inputs
from apertus_image.fetch.prefetch import Result, missing, prefetch
from apertus_image.store.store import Store
from apertus_image.tree.machine import MACHINES, this_machine
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress, size

__all__ = ["bring", "bring_files", "forget", "main"]


ALL = "all"


def bring(names: list[str], store: Store, maker: Maker, *, jobs: int = 8,
          project: Path = PROJECT) -> Result:
    """Prefetch what the named images are made of and by, with progress on a terminal.

    Args:
        project: a clone, whose pins are taken and which keeps the roots.
    """
    pins = project / "nix/pins"
    own = maker.name == "nix2container"
    result = bring_files(*inputs(pins, names, this_machine(), go=own), store, jobs=jobs)
    if own and not store.valid([expected_path(pins)]):
        click.echo("vendoring nix2container's Go modules", err=True)
        go = build(project, "go", store, maker, link=None)
        vendor(pins, source(project, store), store.physical(str(go)) / "bin/go", store)
    for name in names:
        root(project, f"inputs-{name}", store, maker)
    return result


def bring_files(wanted: list[Input], boot: Bootstrap, store: Store, *, jobs: int = 8) -> Result:
    """Prefetch these inputs, with progress on a terminal."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    started = time.monotonic()

    with contextlib.ExitStack() as stack:
        def progress(count: int, total: int):
            return stack.enter_context(Progress(f"fetching {count} inputs", total)).add

        def waiting() -> None:
            click.echo("waiting for another prefetch to end", err=True)

        result = prefetch(wanted, boot, store, base / "apertus-image" / "fetch", jobs=jobs,
                          progress=progress, waiting=waiting)
    if result.fetched:
        click.echo(f"fetched {result.fetched} inputs, {size(result.bytes)}, in "
                   f"{time.monotonic() - started:.0f} s; {result.present} were there", err=True)
    return result


def forget(names: Collection[str]) -> None:
    """Drop the roots of the named images, all of them if none is named."""
    for link in sorted((work(PROJECT) / ".roots").glob("inputs-*")):
        name = link.name.removeprefix("inputs-")
        if not names or name in names:
            link.unlink()
            click.echo(f"forgot {name}", err=True)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--jobs", type=click.IntRange(1, 64), default=8, show_default=True,
              help="Downloads at a time.")
@maker_option
@click.option("--list", "listing", is_flag=True, help="List what is missing; bring nothing.")
@click.option("--forget", "forgetting", is_flag=True,
              help="Drop the roots that keep these images' inputs, or all; bring nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the list, as JSON.")
@store_option
@setup_option
@command_errors
def main(
    names: tuple[str, ...], jobs: int, wanted: str, listing: bool, forgetting: bool,
    as_json: bool, store: Store,
) -> None:
    """Bring the inputs of images NAMES into the store, those that are not there.

    NAMES are as for tools/build, by default apertus-image; `all` is every image for both
    machines. Files come from where pip, apt and go on this machine get theirs, or from
    APERTUS_PYPI_INDEX, APERTUS_DEBIAN_MIRRORS, APERTUS_DEBIAN_SNAPSHOT and
    APERTUS_GOPROXY; every file is checked against the lock.

    \b
    Example:
      tools/prefetch apertus-image-aarch64
      tools/prefetch --list
    """
    chosen = list(names) or ["apertus-image"]
    if ALL in chosen:
        chosen = [f"{image}-{machine}" for image in IMAGES for machine in MACHINES]
    if forgetting:
        forget(chosen if names else [])
        return
    maker = choose(PROJECT, store, wanted)
    if listing:
        pinned, boot = inputs(PINS, chosen, this_machine(), go=maker.name == "nix2container")
        pins = [each.pin for each in missing(pinned, boot, store)]
        if as_json:
            click.echo(json.dumps([vars(pin) for pin in pins]))
        for pin in [] if as_json else pins:
            click.echo(f"{pin.size:>12}  {pin.file}")
        return
    result = bring(chosen, store, maker, jobs=jobs)
    if not result.fetched:
        click.echo(f"all {result.present} inputs are there", err=True)
    if as_json:
        click.echo(json.dumps(vars(result)))


if __name__ == "__main__":
    main(prog_name="tools/prefetch")
