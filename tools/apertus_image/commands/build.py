"""tools/build: an image's JSON from pinned inputs."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import click

from apertus_image.build.maker import choose
from apertus_image.build.run import build, work
from apertus_image.commands.prefetch import bring
from apertus_image.commands.project import (
    PROJECT,
    maker_option,
    place_option,
    setup_option,
    source_place,
    store_option,
)
from apertus_image.errors import UserError
from apertus_image.release.gate import checkout
from apertus_image.release.source import ApplicationSource, tree_of
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]


@click.command()
@click.argument("name", default="apertus-image")
@maker_option
@click.option("--out-link", type=click.Path(path_type=Path), default=None,
              help="Where to put the link to the result. [default: result in the clone]")
@click.option("--source", "folder", metavar="DIR", type=click.Path(path_type=Path), default=None,
              help="Add the files that this git checkout's commit tracks, submodules too.")
@place_option
@click.option("--allow-dirty", is_flag=True,
              help="Take the commit of --source though the checkout differs from it.")
@click.option("--json", "as_json", is_flag=True,
              help="Print path, maker, reason and source as JSON.")
@store_option
@setup_option
@command_errors
def main(
    name: str, wanted: str, out_link: Path | None, folder: Path | None, at: str | None,
    allow_dirty: bool, as_json: bool, store: Store,
) -> None:
    """Build image NAME and print the path of its JSON.

    NAME is an output of the flake: apertus-image (the default) or smoke-image, for this
    machine's architecture, or either with -x86_64 or -aarch64 behind it.

    \b
    Example:
      tools/build --setup
      tools/build apertus-image-aarch64
      tools/build --source ~/nemo-rl --source-at /opt/nemo-rl
    """
    source = _source(folder, at, allow_dirty, store)
    maker = choose(PROJECT, store, wanted)
    click.echo(f"layers are made by {maker.name}: {maker.why}", err=True)
    if source:
        maker = replace(maker, arguments=(*maker.arguments, *source.override()))
    bring([name], store, maker)
    path = build(PROJECT, name, store, maker, link=out_link or work(PROJECT) / "result")
    if as_json:
        said = {"image": str(path), "maker": maker.name, "why": maker.why}
        if source:
            said["source"] = {"commit": source.commit, "submodules": dict(source.submodules),
                              "at": source.at, "path": source.path}
        click.echo(json.dumps(said))
    else:
        click.echo(path)


def _source(
    folder: Path | None, at: str | None, allow_dirty: bool, store: Store
) -> ApplicationSource | None:
    """The user's code in the store, its warnings told."""
    place = source_place(at, source=folder is not None)
    if folder is None:
        if allow_dirty:
            raise UserError("--allow-dirty is about --source, which is not given",
                            next_step="add --source DIR, or leave --allow-dirty out")
        return None
    state = checkout(folder, allow_dirty=allow_dirty)
    with contextlib.ExitStack() as stack:
        def progress(count: int):
            return stack.enter_context(
                Progress("reading the source", count, form=lambda n: f"{n:.0f} files")).add

        source = tree_of(folder, place, store=store, progress=progress)
    click.echo(f"source: {source.files} files of commit {source.commit[:12]} at {source.at}",
               err=True)
    dirty = [f"the checkout differs from its commit, which is taken as it is: "
             f"{len(state.findings)} findings"] if state.dirty else []
    for warning in (*dirty, *source.warnings):
        click.echo(f"warning: {warning}", err=True)
    return source


if __name__ == "__main__":
    main(prog_name="tools/build")
