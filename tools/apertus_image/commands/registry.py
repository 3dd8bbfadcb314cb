"""tools/registry: the persistent registry of a site."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from apertus_image.commands.project import setup_option
from apertus_image.errors import UserError
from apertus_image.place.lustre import stripe
from apertus_image.place.purge import warning
from apertus_image.registry.server import process
from apertus_image.registry.server.detach import detached
from apertus_image.registry.server.folder import Folder, Lock
from apertus_image.registry.server.fsck import Report, check
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]

directory = click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path),
    callback=lambda _context, _option, value: Folder(value))
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.group()
@setup_option
def main() -> None:
    """Keep images in DIR behind a registry on this machine's loopback.

    The registry is the docker-registry program. Whoever can log in to this machine can use it.

    \b
    Example:
      tools/registry serve /capstor/store/cscs/PROJECT/registry --detach
      tools/registry fsck /capstor/store/cscs/PROJECT/registry
    """


@main.command()
@directory
@click.option("--port", type=click.IntRange(1, 65535),
              show_default="the last one again, or a free one")
@click.option("--detach", is_flag=True, help="Return once it answers; for batch jobs.")
@click.option("--cache", is_flag=True,
              help="Allow a place that deletes old files: all of it can be pushed again.")
@command_errors
def serve(folder: Folder, port: int | None, detach: bool, cache: bool) -> None:
    """Serve DIR, and print HOST:PORT once the registry answers.

    Parts that are missing or damaged are told on stderr at the start, and removed so that the
    next push mends them. It ends on Ctrl-C, on SIGTERM and by `tools/registry stop DIR`.

    \b
    Example:
      address=$(tools/registry serve /dev/shm/registry --detach)
    """
    process.program()
    folder.prepare(cache=cache)

    def work(ready: Callable[[str], None]) -> None:
        with folder.hold("serve") as lock:
            _start(folder, lock, port, ready)

    if detach:
        click.echo(detached(work, folder.log))
    else:
        work(click.echo)


def _start(folder: Folder, lock: Lock, port: int | None, ready: Callable[[str], None]) -> None:
    for word in (warning(folder.path), stripe(folder.data).warning):
        if word:
            click.echo(f"warning: {word}", err=True)
    report = _checked(folder, full=False, repair=True)
    if not report.clean:
        click.echo("\n".join(report.lines()), err=True)
        click.echo("warning: parts are gone; push these images again", err=True)
    process.serve(folder, lock, port, ready)


@main.command()
@directory
@as_json
@command_errors
def fsck(folder: Folder, as_json: bool) -> None:
    """Compare every blob in DIR with its digest; exit 1 if anything is damaged or missing.

    Damaged blobs are removed, so that the next push of their images brings them again. While a
    server has DIR, nothing is changed: it may be handing out what would be removed.

    \b
    Example:
      tools/registry fsck /capstor/store/cscs/PROJECT/registry --json
    """
    if folder.existing().holder():
        report = _checked(folder, full=True, repair=False)
    else:
        with folder.hold("fsck"):
            report = _checked(folder, full=True, repair=True)
    if as_json:
        click.echo(json.dumps(report.record()))
    else:
        for line in report.lines():
            click.echo(line)
    click.echo(f"{report.blobs} blobs looked at, {report.bytes} bytes: "
               + ("clean" if report.clean else _next(folder, report)), err=True)
    sys.exit(0 if report.clean else 1)


def _next(folder: Folder, report: Report) -> str:
    if report.repaired:
        return "push these images again to mend them"
    return (f"nothing was changed, as a server is running; tools/registry stop {folder.path}, "
            "then fsck again, then push these images again")


def _checked(folder: Folder, *, full: bool, repair: bool) -> Report:
    return check(folder.data, full=full, repair=repair,
                 progress=lambda label, total: Progress(label, total).add)


@main.command()
@directory
@as_json
@command_errors
def status(folder: Folder, as_json: bool) -> None:
    """Print HOST:PORT of the server of DIR; exit 1 if none answers.

    \b
    Example:
      tools/registry status /capstor/store/cscs/PROJECT/registry
    """
    holder = folder.existing().holder()
    address = holder.address if holder else None
    healthy = bool(address and holder.here and process.answers(address))
    if as_json:
        click.echo(json.dumps({"running": holder is not None, "healthy": healthy,
                               **({"holder": asdict(holder)} if holder else {})}))
        sys.exit(0 if healthy else 1)
    if not healthy:
        raise UserError("no registry answers here", where=folder.path,
                        got=holder or "nobody has the folder",
                        next_step=f"read {folder.log}" if holder and holder.here
                        else f"on {holder.host}: tools/registry status {folder.path}" if holder
                        else f"tools/registry serve {folder.path}")
    click.echo(address)


@main.command()
@directory
@command_errors
def stop(folder: Folder) -> None:
    """Stop the server of DIR, and return when it has ended; nothing to stop is no fault.

    \b
    Example:
      tools/registry stop /capstor/store/cscs/PROJECT/registry
    """
    ended = process.stop(folder.existing())
    click.echo(f"stopped {ended}" if ended else "nothing was running", err=True)


if __name__ == "__main__":
    main(prog_name="tools/registry")
