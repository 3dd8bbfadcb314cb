"""tools/push-image: an image into a registry."""

from __future__ import annotations

import json
from pathlib import Path

import click

from apertus_image.build.run import programs, work
from apertus_image.commands.images import located
from apertus_image.commands.project import PROJECT, maker_option, setup_option, store_option
from apertus_image.commands.registries import connect, registry_options, say
from apertus_image.oci.image import Image
from apertus_image.registry.chunks import SIZE, ChunkSize
from apertus_image.registry.compress import LEVELS, Encoder, compressed
from apertus_image.registry.push import WORKERS, push
from apertus_image.registry.reference import Reference
from apertus_image.registry.referrers import attach
from apertus_image.registry.source import Source, from_image, from_layout
from apertus_image.registry.state import State, default_folder
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress, size

__all__ = ["main"]


def words(_context: click.Context, _option: click.Parameter,
          given: tuple[str, ...]) -> tuple[str, str]:
    """IMAGE, which may be missing, and the reference."""
    if not 1 <= len(given) <= 2:
        raise click.UsageError("say where to: tools/push-image docker://HOST/REPOSITORY:TAG")
    return given[0] if len(given) == 2 else str(work(PROJECT) / "result"), given[-1]


def documents(_context: click.Context, _option: click.Parameter,
              given: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """TYPE=FILE as (media type, content)."""
    found = []
    for each in given:
        kind, _, file = each.partition("=")
        if "/" not in kind or not Path(file).is_file():
            raise click.BadParameter(f"{each} is not TYPE=FILE, a media type and a file")
        found.append((kind, Path(file).read_bytes()))
    return found


def to_push(image: str, store: Store) -> Source:
    """The image, from the store or from a layout."""
    at = located(image, store)
    return from_image(at, store.physical) if isinstance(at, Image) else from_layout(*at)


def zstd(store: Store, maker: str) -> Path:
    """The pinned toolchain's zstd, built now if it has to be."""
    return programs(PROJECT, store, maker) / "zstd"


def compress(source: Source, encoder: Encoder) -> Source:
    """The image with its layers compressed, their digests known."""
    total = sum(blob.size for blob, kind in source.layers if kind == "tar")
    with Progress(f"compressing with {encoder.kind}", total) as bar:
        return compressed(source, encoder, default_folder().parent / "compressed",
                          progress=bar.add)


@click.command()
@click.argument("given", nargs=-1, callback=words,
                metavar="[IMAGE] docker://HOST[:PORT]/REPOSITORY[:TAG]")
@click.option("--format", "form", type=click.Choice(["auto", "oci", "v2s2"]), default="auto",
              show_default=True, help="The manifest's form; auto is OCI, but Docker v2s2 where "
              "Enroot could not import that.")
@click.option("--compression", type=click.Choice(["none", *LEVELS]), default="none",
              show_default=True, help="Of the layers, with the same bytes on every machine. Older "
              "Enroots cannot read zstd.")
@click.option("--from", "mount", metavar="REPOSITORY", default="",
              help="A repository of the same registry that may have the layers.")
@click.option("--attach", "attached", multiple=True, metavar="TYPE=FILE", callback=documents,
              help="Attach a document (record, SBOM) to the image by digest; may be repeated.")
@click.option("--workers", type=click.IntRange(1, 16), default=WORKERS, show_default=True,
              help="Blobs at a time.")
@click.option("--chunk", type=click.IntRange(1, 256), default=SIZE >> 20, show_default=True,
              help="MiB of a request; each worker holds one in memory.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done.")
@registry_options
@maker_option
@store_option
@setup_option
@command_errors
def main(
    given: tuple[str, str], form: str, compression: str, mount: str,
    attached: list[tuple[str, bytes]], workers: int, chunk: int, as_json: bool,
    plain_http: bool | None, ca: Path | None, wanted: str, store: Store,
) -> None:
    """Push IMAGE, an image JSON (default: result) or an image of an OCI layout, to a registry.

    Layers come straight from the store, and what the registry has is not sent. A push that was
    interrupted or killed goes on where it was. The tag moves last, after every blob has been
    found there; printed is the reference by digest.

    Credentials: APERTUS_REGISTRY_USER with APERTUS_REGISTRY_PASSWORD, or APERTUS_REGISTRY_TOKEN;
    else what podman, skopeo or docker know.

    \b
    Example:
      tools/push-image docker://registry.example.org/team/apertus:26.07
      tools/push-image LAYOUT:NAME docker://127.0.0.1:5000/apertus:test --json
    """
    image, text = given
    target = Reference.parse(text)
    source, encoding = to_push(image, store), None
    if compression != "none":
        encoder = Encoder(zstd(store, wanted), compression, LEVELS[compression])
        source, encoding = compress(source, encoder), encoder.record()
        if compression == "zstd":
            say("Enroot up to 4.1.2 cannot read zstd layers, and loses small ones without a word")
    client = connect(target.host, plain_http, ca, workers)
    total = sum(blob.size for blob in source.blobs())
    with Progress(f"pushing to {target.host}", total) as bar:
        done = push(source, target, client, form=form, state=State(default_folder()),
                    chunk=ChunkSize(chunk << 20), workers=workers, mount=mount, say=say,
                    progress=bar.add)
    kept = [what.what for what in done.outcomes.values()].count("exists")
    say(f"{kept} of {len(done.outcomes)} blobs exist, {size(done.sent)} sent; manifest "
        f"{'pushed' if done.moved else 'exists'}")
    documents = [attach(client, done.reference, kind, data, say=say) for kind, data in attached]
    told = {**done.json(), "compression": encoding,
            "attached": [str(each.reference) for each in documents]}
    click.echo(json.dumps(told) if as_json else done.reference)


if __name__ == "__main__":
    main(prog_name="tools/push-image")
