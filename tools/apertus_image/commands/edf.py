"""tools/edf: environment definition files for CSCS's Container Engine."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import click

from apertus_image.commands.project import setup_option
from apertus_image.edf.finding import Finding
from apertus_image.edf.lint import lint as findings
from apertus_image.edf.write import MOUNTS, WORKLOADS, Choices, artefact, compose
from apertus_image.errors import UserError
from apertus_image.place.purge import warning
from apertus_image.ui.errors import command_errors

__all__ = ["main"]


@click.group()
@setup_option
def main() -> None:
    """Write, or lint, an EDF: what `srun --environment` is told.

    \b
    Example:
      tools/edf write /store/apertus-image-0.25.1-ID.sqsh --workload one-node -o vllm.toml
      tools/edf lint vllm.toml
    """


@main.command()
@click.argument("image", metavar="ARTEFACT")
@click.option("--workload", type=click.Choice(WORKLOADS), required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), default=None,
              show_default="stdout", help="The file; one that differs is not replaced.")
@click.option("--mount", "mounts", multiple=True, metavar="SRC:DST[:FLAGS]",
              show_default=", ".join(MOUNTS), help="In place of the default ones; repeat it.")
@click.option("--workdir", default="/tmp", show_default=True, metavar="DIR")
@click.option("--read-only", is_flag=True, help="No hook writes into the container.")
@click.option("--force", is_flag=True, help="Replace another file of that name.")
@command_errors
def write(image: str, workload: str, output: Path | None, mounts: tuple[str, ...], workdir: str,
          read_only: bool, force: bool) -> None:
    """Write the EDF of ARTEFACT, a .sqsh or a registry reference by digest.

    \b
    Example:
      tools/edf write apertus-image-0.25.1-ID.sqsh --workload multi-node -o vllm.toml
    """
    named = artefact(image)
    if named.startswith("/") and (words := warning(Path(named))):
        click.echo(f"warning: {words}", err=True)
    text = compose(named, workload, Choices(mounts or MOUNTS, workdir, not read_only))
    if output is None:
        click.echo(text, nl=False)
        return
    _place(output, text, force)
    click.echo(output)


def _place(output: Path, text: str, force: bool) -> None:
    """Write a file whole, or not at all."""
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        if output.exists() and not force and output.read_text() != text:
            raise UserError("another file has the name", where=output,
                            next_step="give another name with -o, or replace it with --force")
        part.write_text(text)
        part.replace(output)
    except OSError as error:
        raise UserError("the EDF cannot be written", where=output, got=error.strerror) from error
    finally:
        part.unlink(missing_ok=True)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@command_errors
def lint(file: Path, as_json: bool, strict: bool) -> None:
    """Say what in FILE will not do what it seems to; exit 1 if any of it is an error.

    Run it where the job will be submitted: the image, its record and the variables are looked
    at as they are there.

    \b
    Example:
      tools/edf lint vllm.toml --strict
    """
    looker = shutil.which("unsquashfs")
    found = findings(file, unsquashfs=Path(looker) if looker else None)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        for each in found:
            click.echo("\n".join(_lines(each)))
    counts = [f"{n} {severity}s" if n != 1 else f"1 {severity}"
              for severity in ("error", "warning", "note")
              if (n := sum(each.severity == severity for each in found))]
    click.echo(", ".join(counts) or "clean", err=True)
    bad = {"error", "warning"} if strict else {"error"}
    sys.exit(1 if any(each.severity in bad for each in found) else 0)


def _lines(each: Finding) -> list[str]:
    place = f"{each.file}:{each.line}" if each.line else each.file
    return [f"{each.severity}: {each.what}", f"  where:    {place} ({each.key})",
            f"  why:      {each.why}", f"  next:     {each.next_step}"]


if __name__ == "__main__":
    main(prog_name="tools/edf")
