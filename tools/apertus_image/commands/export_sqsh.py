"""tools/export-sqsh: an image as one SquashFS file for Enroot."""

from __future__ import annotations

import json
from pathlib import Path

import click

from apertus_image.build.maker import choose
from apertus_image.build.run import root
from apertus_image.commands.project import PROJECT, maker_option, setup_option, store_option
from apertus_image.oci.image import Image
from apertus_image.squashfs.export import export
from apertus_image.squashfs.write import Settings
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress, size

__all__ = ["main"]


@click.command()
@click.argument("image", type=click.Path(path_type=Path), default=PROJECT / "result")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path(),
              show_default="the current folder", help="A folder, or the file's name.")
@click.option("--compressor", default="zstd", show_default=True)
@click.option("--level", type=int, default=3, show_default=True)
@click.option("--block", type=int, default=1 << 20, show_default=True, help="Bytes.")
@click.option("--force", is_flag=True, help="Replace another file of that name.")
@click.option("--json", "as_json", is_flag=True, help="Print the record.")
@maker_option
@store_option
@setup_option
@command_errors
def main(
    image: Path, output: Path, compressor: str, level: int, block: int, force: bool, as_json: bool,
    wanted: str, store: Store,
) -> None:
    """Write IMAGE, an image JSON (default: result), as NAME-VERSION-ID.sqsh.

    Straight from the store: no daemon, no registry, no root, no unpacked copy. The file is read
    back whole before it gets its name; beside it lie its record and its .sha256.

    \b
    Example:
      tools/export-sqsh
      tools/export-sqsh result -o /scratch/images
    """
    described = Image.load(image)
    tools = root(PROJECT, "toolchain", store, choose(PROJECT, store, wanted))

    def progress(label: str, total: int):
        return Progress(label, total).add

    done = export(described, output, store.physical(str(tools)) / "bin", force=force,
                  settings=Settings(compressor, level, block), progress=progress,
                  physical=store.physical)
    if not done.written:
        click.echo("an identical export is there already", err=True)
    click.echo(f"{size(done.record['size'])}, sha256 {done.record['sha256']}", err=True)
    click.echo(json.dumps(done.record) if as_json else done.path)


if __name__ == "__main__":
    main(prog_name="tools/export-sqsh")
