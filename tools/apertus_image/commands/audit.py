"""tools/audit: what changed between two revisions or artefacts, and what it means."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from apertus_image.audit.check import Checked, check
from apertus_image.audit.compare import Auditor
from apertus_image.audit.html import page
from apertus_image.audit.render import markdown, text
from apertus_image.audit.report import Report
from apertus_image.audit.subject import Subject, of
from apertus_image.build.maker import choose
from apertus_image.build.run import build, root
from apertus_image.commands.prefetch import bring
from apertus_image.commands.project import PROJECT, maker_option, setup_option, store_option
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]


@click.command()
@click.argument("subjects", nargs=-1, metavar="OLD NEW | [REV]")
@click.option("--check", "checking", is_flag=True,
              help="Check one revision by itself (default: this clone as it is).")
@click.option("--image", default="apertus-image", show_default=True,
              help="Whose layers are foretold, as tools/build names it.")
@click.option("--build", "building", is_flag=True,
              help="Build both revisions' images and compare with what was foretold.")
@click.option("--json", "form", flag_value="json", help="Print everything as JSON.")
@click.option("--markdown", "form", flag_value="markdown", help="Print for a pull request.")
@click.option("--html", "form", flag_value="html", help="Print one page with the layer map.")
@maker_option
@store_option
@setup_option
@command_errors
def main(subjects: tuple[str, ...], checking: bool, image: str, building: bool, form: str | None,
         wanted: str, store: Store) -> None:
    """Say what differs between OLD and NEW, and which layers change because of it.

    Each is a revision or a folder of this project, a flake.lock, a record, an image JSON, the
    folder of an OCI layout (:NAME or @DIGEST), or a .sqsh.

    Exit code: 0 the same image, 10 only the overlay, the application or the config changes, 20
    dependency layers are built again, 1 an error or what must stop a release.

    \b
    Example:
      tools/audit main HEAD
      tools/audit main HEAD --html >audit.html
      tools/audit old.sqsh new.sqsh
      tools/audit --check
    """
    if len(subjects) != (2 if not checking else min(len(subjects), 1)):
        raise click.UsageError("--check takes one revision or none" if checking
                               else "name two things to compare, OLD and NEW")
    with tempfile.TemporaryDirectory(prefix="apertus-audit.") as scratch, _told():
        sides = [_subject(each, Path(scratch, str(number)), store)
                 for number, each in enumerate(subjects)]
        if checking:
            sys.exit(_check(sides[0] if sides else None, form, store))

        def built(folder: Path) -> Image:
            maker = choose(folder, store, wanted)
            bring([image], store, maker, project=folder)
            return Image.load(store.physical(str(build(folder, image, store, maker, link=None))))

        def programs() -> Path:
            tools = root(PROJECT, "toolchain", store, choose(PROJECT, store, wanted))
            return store.physical(str(tools)) / "bin"

        auditor = Auditor(image, store, programs, built if building else None,
                          (PROJECT / "result",), _progress, _say)
        report = auditor.compare(*sides)
    _show(report, form)
    sys.exit(report.exit_code)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """A file that cannot be read, or no room for a revision's files, as one error."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output has gone: Click's own matter
    except OSError as error:
        raise UserError("a file cannot be read or written", where=error.filename,
                        got=error.strerror, next_step="see whether you may read it, and whether "
                        f"{tempfile.gettempdir()} has room (TMPDIR chooses another)") from error


def _subject(name: str, scratch: Path, store: Store) -> Subject:
    scratch.mkdir()
    return of(name, PROJECT, scratch, store.physical)


def _say(step: str) -> None:
    if sys.stderr.isatty():
        click.echo(step, err=True)


def _progress(label: str, total: int):
    return Progress(label, total).add


def _show(report: Report, form: str | None) -> None:
    if form == "json":
        click.echo(json.dumps(report.json(), indent=1))
    elif form == "html":
        click.echo(page(report), nl=False)
    elif form == "markdown":
        click.echo("\n".join(markdown(report)))
    else:
        click.echo("\n".join(text(report, lambda line, colour: click.style(
            line, fg=colour) if colour else line)))


def _check(subject: Subject | None, form: str | None, store: Store) -> int:
    if form in ("html", "markdown"):
        raise click.UsageError(f"--check prints no {form}; it has --json")
    if subject is not None and subject.project is None:
        raise UserError("only a revision can be checked", where=subject.label, got=subject.kind,
                        next_step="tools/verify checks artefacts")
    done = check(subject.project if subject else PROJECT, store, _progress)
    click.echo(_checked_json(done) if form == "json" else "\n".join(_checked(done)))
    return 1 if done.findings else 0


def _checked(done: Checked) -> list[str]:
    lines = [click.style("finding: ", fg="red") + str(each) for each in done.findings]
    lines.append("looked at " + ", ".join(f"{n} {what}" for what, n in done.counts.items()))
    if done.absent:
        lines.append(f"not looked into: {done.absent} pinned files that are not in the store "
                     "(tools/prefetch all)")
    lines.append(f"{len(done.findings)} findings" if done.findings else "all is pinned and sound")
    return lines


def _checked_json(done: Checked) -> str:
    return json.dumps({"schema": "apertus-image/audit-check/1", "counts": done.counts,
                       "absent": done.absent, "findings": [
                           {"what": each.what, **{key: None if value is None else str(value)
                            for key, value in (("where", each.where), ("expected", each.expected),
                                               ("got", each.got), ("next", each.next_step))}}
                           for each in done.findings]}, indent=1)


if __name__ == "__main__":
    main(prog_name="tools/audit")
