"""tools/export-sqsh: an image as one SquashFS file for Enroot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click

from apertus_image.build.run import programs, work
from apertus_image.commands.images import found
from apertus_image.commands.project import PROJECT, maker_option, setup_option, store_option
from apertus_image.commands.registries import connect, registry_options
from apertus_image.errors import UserError
from apertus_image.oci.layout import Layout
from apertus_image.place.lustre import stripe
from apertus_image.place.purge import warning
from apertus_image.registry.pull import pull
from apertus_image.registry.reference import Reference
from apertus_image.squashfs.export import CHECKS, Exporter, folder_of
from apertus_image.squashfs.source import LayoutImage, Source
from apertus_image.squashfs.write import COMPRESSORS, Settings
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress, size

__all__ = ["main"]

REGISTRY = "docker://"


def pulled_layout(reference: Reference, folder: Path, plain_http: bool | None, ca: Path | None
                  ) -> Layout:
    """An image of a registry, in a layout; only by digest, since a tag may be another tomorrow."""
    if not reference.digest:
        raise UserError("an image of a registry is exported by its digest", where=str(reference),
                        expected="docker://HOST/REPOSITORY@sha256:…",
                        next_step="tools/push-image prints it, skopeo inspect tells it")
    client = connect(reference.host, plain_http, ca)
    pull(reference, client, folder,
         progress=lambda label, total: Progress(label, total).add)
    return Layout(folder)


@click.command()
@click.argument("image", default=str(work(PROJECT) / "result"), metavar="[IMAGE]")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path(),
              show_default="the current folder",
              help="A folder that is there, or the file's name, which ends in .sqsh.")
@click.option("--compressor", type=click.Choice(list(COMPRESSORS)), default="zstd",
              show_default=True)
@click.option("--level", type=int, default=None, help="Of the compressor.  [default: 3 for zstd]")
@click.option("--block", type=int, default=1 << 20, show_default=True, help="Bytes.")
@click.option("--check", type=click.Choice(CHECKS), default="full", show_default=True,
              help="Read every byte back, or the entries alone; the record says which.")
@click.option("--architecture", default="", metavar="amd64|arm64",
              help="Which image of an index to take.")
@click.option("--force", is_flag=True, help="Replace another file of that name.")
@click.option("--json", "as_json", is_flag=True, help="Print the record.")
@registry_options
@maker_option
@store_option
@setup_option
@command_errors
def main(
    image: str, output: Path, compressor: str, level: int | None, block: int, check: str,
    architecture: str, force: bool, as_json: bool, plain_http: bool | None, ca: Path | None,
    wanted: str, store: Store,
) -> None:
    """Write IMAGE as NAME-VERSION-ID.sqsh, for Enroot and Pyxis.

    IMAGE is an image JSON (default: result), or the folder of an OCI image layout, with :NAME
    or @DIGEST behind it where it holds several, or docker://HOST/REPOSITORY@sha256:DIGEST, which
    is pulled beside the output first, and gone on with if that was interrupted.

    No daemon, no registry, no root, no unpacked copy. The file is read back whole before it
    gets its name; beside it lie its record (.json) and its checksum (.sha256).

    \b
    Example:
      tools/export-sqsh
      tools/export-sqsh result -o /scratch/images
      tools/export-sqsh layout:v1 -o v1.sqsh --check quick
      tools/export-sqsh docker://registry.example.org/team/apertus@sha256:… -o /scratch/images
    """
    settings = Settings.of(compressor, level, block)
    folder = folder_of(output)
    if not output.is_dir() and output.suffix != ".sqsh":  # a folder's name, most likely
        raise UserError("the output is no folder that is there, and no .sqsh", where=output,
                        next_step=f"mkdir -p {output}, or name a file that ends in .sqsh")
    if image.startswith(REGISTRY):
        reference = Reference.parse(image)
        pulled = folder / f".{(reference.digest or '').removeprefix('sha256:')}.pulled"
        layout = pulled_layout(reference, pulled, plain_http, ca)
        source: Source = LayoutImage(layout, reference.digest)
    else:
        source, pulled = found(image, store, architecture), None
    tools = programs(PROJECT, store, wanted)

    def progress(label: str, total: int):
        return Progress(label, total).add

    def tell(words: str) -> None:
        click.echo(f"warning: {words}", err=True)

    if words := warning(folder):
        tell(words)
    if words := stripe(folder).warning:
        tell(words)
    exporter = Exporter(tools, settings, check, force, progress, tell)
    done = exporter.export(source, output)
    if pulled:
        shutil.rmtree(pulled)
    if not done.written:
        click.echo("an identical export is there already", err=True)
    click.echo(f"{size(done.record['size'])}, sha256 {done.record['sha256']}", err=True)
    click.echo(json.dumps(done.record) if as_json else done.path)


if __name__ == "__main__":
    main(prog_name="tools/export-sqsh")
