"""tools/verify: whether an artefact is still what was recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from apertus_image.build.run import work
from apertus_image.commands.images import located
from apertus_image.commands.project import PROJECT, setup_option, store_option
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.record.report import DIFFERS, SAME, UNCHECKED, Item
from apertus_image.record.verify import Verifier
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]

COLOURS = {SAME: "green", DIFFERS: "red", UNCHECKED: "yellow"}


@click.command()
@click.argument("artefact")
@click.option("--full", is_flag=True, help="Read and hash everything.")
@click.option("--once", is_flag=True, help="Hash what no full check is known of.")
@click.option("--image", type=click.Path(path_type=Path), default=None, metavar="FILE",
              help="The image JSON that it was made of.  [default: result, if it is that image]")
@click.option("--signers", type=click.Path(path_type=Path), default=None, metavar="FILE",
              help="Who may sign a record, as ssh-keygen's ALLOWED SIGNERS.")
@click.option("--json", "as_json", is_flag=True, help="Print every item as JSON.")
@store_option
@setup_option
@command_errors
def main(artefact: str, full: bool, once: bool, image: Path | None, signers: Path | None,
         as_json: bool, store: Store) -> None:
    """Compare ARTEFACT with what was recorded of it; exit 1 if anything differs.

    ARTEFACT is a .sqsh or another file of a release, an image JSON, or an OCI layout's folder.
    Without an option nothing large is read: sizes, the superblock and all small files are
    compared, and the SHA-256 is known where the file is unchanged since it was last hashed.

    \b
    Example:
      tools/verify apertus-image-0.25.1-0123456789ab-0123456789ab.sqsh --full
      tools/verify --once IMAGE.sqsh && srun ...     # in a job script
    """
    mode = "full" if full else "once" if once else "quick"  # full is all that once would be
    verifier = Verifier(
        mode, _given(image, store) if image else _usual(), PROJECT, signers, store.physical,
        progress=lambda label, total: Progress(label, total).add)
    report = verifier.verify(artefact)
    if as_json:
        click.echo(json.dumps(report.json(), indent=1))
    else:
        for item in report.items:
            click.echo(_lines(item))
    sys.exit(1 if report.differs else 0)


def _given(file: Path, store: Store) -> Image:
    """The image that --image names, in a store below a directory too."""
    image = located(str(file), store)
    if not isinstance(image, Image):
        raise UserError("--image takes an image JSON", where=file, got="the folder of a layout",
                        next_step="name what tools/build printed, or a result")
    return image


def _usual() -> Image | None:
    """What `result` is, if it is an image: it may be the artefact's own."""
    try:
        return Image.load(work(PROJECT) / "result")
    except UserError:
        return None


def _lines(item: Item) -> str:
    standing = click.style(f"{item.standing:<12}", fg=COLOURS[item.standing])
    more = [f"  {name + ':':<10}{value}" for name, value in (
        ("where", item.where), ("expected", item.expected), ("got", item.got)) if value]
    return "\n".join([f"{standing}{item.what}{item.why and f' ({item.why})'}", *more])


if __name__ == "__main__":
    main(prog_name="tools/verify")
