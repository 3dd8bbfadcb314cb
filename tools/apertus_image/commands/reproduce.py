"""tools/reproduce: an image built again in other surroundings, and compared."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from apertus_image.audit import evidence
from apertus_image.audit.checkout import commit_of
from apertus_image.audit.reproduce import Report, Reproducer
from apertus_image.build.maker import Maker
from apertus_image.commands.prefetch import bring
from apertus_image.commands.project import PROJECT, maker_option, setup_option, store_option
from apertus_image.errors import UserError
from apertus_image.record.record import Record
from apertus_image.release.git import Git
from apertus_image.store.store import Store
from apertus_image.tree.machine import machine
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]

FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.argument("revision", default="", metavar="[REV]")
@click.option("--image", default="", metavar="NAME",
              help="Output of the flake.  [default: apertus-image, or the record's]")
@click.option("--record", "record_file", type=click.Path(path_type=Path), default=None,
              metavar="FILE", help="A release's .record.json, to compare with too.")
@click.option("--sqsh", is_flag=True, help="Export both and compare the SHA-256.")
@click.option("--nix", type=click.Path(path_type=Path, exists=True), default=None, metavar="DIR",
              help="Folder of a second Nix's programs.  [default: another version on PATH]")
@click.option("--scratch", type=FOLDER, default=None, metavar="DIR",
              help="Where the second store goes, which needs the image's size and more.")
@click.option("--evidence", "folder", type=FOLDER, default=None, metavar="DIR",
              help="Write the tables there as reproduce-NAME.md.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@maker_option
@store_option
@setup_option
@command_errors
def main(revision: str, image: str, record_file: Path | None, sqsh: bool, nix: Path | None,
         scratch: Path | None, folder: Path | None, as_json: bool, wanted: str,
         store: Store) -> None:
    """Build an image of commit REV (default: HEAD, or the record's) twice; exit 1 if it differs.

    The second build is another user's, from another clone, with another umask, locale, time zone,
    number of CPUs, hash seed, Nix and maker of layers, as far as this machine has them; in a store
    that holds the pinned inputs alone, so that everything else is truly built again. What could
    not be varied is said. Compared are the image ID, the image JSON and every layer; where one
    differs, its first entry that does is named.

    \b
    Example:
      tools/reproduce --image smoke-image
      tools/reproduce v1.0 --sqsh --evidence docs/evidence
      tools/reproduce --record apertus-image-0.25.1-0123456789ab-0123456789ab.record.json
    """
    record = _record(record_file) if record_file else None
    commit = commit_of(PROJECT, revision or (record.data["source"]["commit"] if record else "HEAD"))
    if not revision and not record and Git(PROJECT).run("status", "--porcelain"):
        say("warning: what is not committed is not in the builds")

    def prefetched(checkout: Path, name: str, maker: Maker) -> None:
        bring([name], store, maker, project=checkout)

    def progress(label: str, total: int):
        return Progress(label, total).add

    maker = Reproducer(PROJECT, store, wanted, scratch, nix, sqsh, prefetched, say, progress)
    report = maker.run(image or (_image(record) if record else "apertus-image"), commit, record)
    if folder:
        say(f"kept as {evidence.write(report, folder)}")
    click.echo(json.dumps(report.json(), indent=1) if as_json else "\n".join(_lines(report)))
    sys.exit(0 if report.same else 1)


def say(line: str) -> None:
    """A line on stderr."""
    click.echo(line, err=True)


def _record(file: Path) -> Record:
    try:
        record = Record.parse(file.read_bytes(), file)
    except OSError as error:
        raise UserError("the record cannot be read", where=file, got=error.strerror) from error
    application = record.data["application"]
    if application or record.data["source"]["dirty"]:
        raise UserError(
            "the record's commit alone does not give this image", where=file,
            expected="a release of a commit, without an application's source",
            got=f"the application's commit {application['commit']}" if application else
            "a release of what was not committed", next_step="tools/release makes it again")
    return record


def _image(record: Record) -> str:
    said = record.data["image"]
    return f"{said['name']}-{machine(said['architecture']).name}"


def _lines(report: Report) -> Iterator[str]:
    for row in report.varied:
        if row.why:
            yield f"{click.style('not varied', fg='yellow')}  {row.what}: {row.first} ({row.why})"
        else:
            yield f"varied      {row.what}: {row.first} -> {row.second}"
    for each in report.compared:
        if each.same:
            yield f"{click.style('same', fg='green')}        {each.what}: {each.first}"
        else:
            yield (f"{click.style('differs', fg='red')}     {each.what}: {each.first} -> "
                   f"{each.second}")
    if one := report.difference:
        yield f"first difference, in {report.layer}:"
        yield from (f"  {name + ':':<10}{value}" for name, value in (
            ("entry", one.entry), ("field", one.field), ("first", one.first),
            ("second", one.second), ("made by", one.tree)))
    yield (f"{report.image} of {report.commit[:12]}: {report.built} derivations built again, "
           + ("the same bits" if report.same else "NOT the same bits"))


if __name__ == "__main__":
    main(prog_name="tools/reproduce")
