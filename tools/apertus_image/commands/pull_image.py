"""tools/pull-image: an image from a registry."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import click

from apertus_image.commands.project import setup_option
from apertus_image.commands.registries import connect, registry_options, say
from apertus_image.registry.pull import WORKERS, pull
from apertus_image.registry.reference import Reference
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress, size

__all__ = ["main"]


@click.command()
@click.argument("reference", metavar="docker://HOST[:PORT]/REPOSITORY[:TAG|@sha256:DIGEST]")
@click.argument("layout", type=click.Path(path_type=Path, file_okay=False))
@click.option("--workers", type=click.IntRange(1, 16), default=WORKERS, show_default=True,
              help="Blobs at a time.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done.")
@registry_options
@setup_option
@command_errors
def main(reference: str, layout: Path, workers: int, as_json: bool, plain_http: bool | None,
         ca: Path | None) -> None:
    """Fetch an image into LAYOUT, the folder of an OCI layout, new or there already.

    Every blob is checked against its digest. What an interrupted run brought is gone on with, and
    blobs that are there are not fetched. Printed is the folder, which tools/export-sqsh and
    tools/push-image take; --json has the digest.

    \b
    Example:
      tools/pull-image docker://registry.example.org/team/apertus@sha256:… apertus.oci
      tools/export-sqsh apertus.oci
    """
    wanted = Reference.parse(reference)
    client = connect(wanted.host, plain_http, ca, workers)
    with contextlib.ExitStack() as shown:

        def progress(label: str, total: int) -> Callable[[int], None]:
            return shown.enter_context(Progress(label, total)).add

        done = pull(wanted, client, layout, workers=workers, progress=progress)
    say(f"{done.reference}: {size(done.size - done.present)} fetched, "
        f"{size(done.present)} were there")
    click.echo(json.dumps(done.json()) if as_json else done.layout)


if __name__ == "__main__":
    main(prog_name="tools/pull-image")
