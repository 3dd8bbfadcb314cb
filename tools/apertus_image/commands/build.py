"""tools/build: an image's JSON from pinned inputs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from apertus_image.build.maker import choose
from apertus_image.build.run import build
from apertus_image.commands.prefetch import bring
from apertus_image.commands.project import PROJECT, maker_option, setup_option, store_option
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors

__all__ = ["main"]


@click.command()
@click.argument("name", default="apertus-image")
@maker_option
@click.option("--out-link", type=click.Path(path_type=Path), default=None,
              help="Where to put the link to the result. [default: result in the clone]")
@click.option("--json", "as_json", is_flag=True, help="Print path, maker and reason as JSON.")
@store_option
@setup_option
@command_errors
def main(
    name: str, wanted: str, out_link: Path | None, as_json: bool, store: Store
) -> None:
    """Build image NAME and print the path of its JSON.

    NAME is an output of the flake: apertus-image (the default: this machine's
    architecture), apertus-image-x86_64, apertus-image-aarch64 or smoke-image.

    \b
    Example:
      tools/build --setup
      tools/build apertus-image-aarch64
    """
    maker = choose(PROJECT, store, wanted)
    click.echo(f"layers are made by {maker.name}: {maker.why}", err=True)
    bring([name], store, maker)
    path = build(PROJECT, name, store, maker, link=out_link or PROJECT / "result")
    if as_json:
        click.echo(json.dumps({"image": str(path), "maker": maker.name, "why": maker.why}))
    else:
        click.echo(path)


if __name__ == "__main__":
    main(prog_name="tools/build")
