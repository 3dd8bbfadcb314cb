"""tools/bootstrap: a self-contained folder, for a machine without root, /nix or Python."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from pathlib import Path

import click

from apertus_image.bundle.make import link, make, prepare, starts
from apertus_image.bundle.plan import inputs
from apertus_image.commands.project import PINS, PROJECT, setup_option, store_option
from apertus_image.fetch import plan
from apertus_image.fetch.prefetch import prefetch
from apertus_image.place.purge import warning
from apertus_image.store.store import Store
from apertus_image.tree.machine import MACHINES, this_machine
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import Progress

__all__ = ["main"]


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--machine", "name", type=click.Choice(list(MACHINES)),
              default=lambda: this_machine().name, show_default="this one")
@click.option("--json", "as_json", is_flag=True, help="Print the folder's record.")
@store_option
@setup_option
@command_errors
def main(folder: Path, name: str, as_json: bool, store: Store) -> None:
    """Make DIR: Python, the tools and their packages, Nix, git and SquashFS, all pinned.

    It is made where there is a network, Python or not, and used there or after copying it
    anywhere, by anybody: an ordinary user on a machine with sh, coreutils and user namespaces.
    DIR/bin has the commands; the store is DIR/store. With APERTUS_BOOTSTRAP=DIR a clone's own
    tools/ run on it too; where nothing is installed, this clone's do without that. Made again
    after a change, DIR has the new version beside the old, which can be removed when no job
    uses it.

    \b
    Example:
      tools/bootstrap /scratch/apertus --machine aarch64
      /scratch/apertus/bin/build smoke-image
    """
    machine = MACHINES[name]
    seeded = bool(os.environ.get("APERTUS_SEED"))  # bundle/seed.sh: no Python here, and no /nix
    if seeded and not store.root:
        store = Store(folder.absolute() / "store")
    wanted = inputs(PINS, machine)
    _, boot = plan.inputs(PINS, [], this_machine())
    prepare(folder)
    if words := warning(folder):
        click.echo(f"warning: {words}", err=True)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with contextlib.ExitStack() as stack:
        def progress(count: int, total: int):
            return stack.enter_context(Progress(f"fetching {count} inputs", total)).add

        prefetch(wanted, boot, store, base / "apertus-image" / "fetch", progress=progress,
                 waiting=lambda: click.echo("waiting for another prefetch to end", err=True))

    started = time.monotonic()
    with Progress("making the folder", 3, form=lambda amount: f"{amount:.0f}") as steps:
        done = make(folder, PROJECT, machine,
                    [(each, store.physical(each.store_path)) for each in wanted],
                    step=lambda _label: steps.add(1))
    click.echo(f"{done.record['identity'][:12]} for {name}, in {time.monotonic() - started:.0f} s"
               if done.written else "this very folder is there already", err=True)
    if machine == this_machine() and not starts(folder):
        click.echo("warning: its programs cannot be started there: the file system may be mounted "
                   "noexec; copy it to another", err=True)
    elif seeded and machine == this_machine():
        click.echo("this clone's tools/ run on it from now on" if link(PROJECT, folder) else
                   "this clone cannot be written to, so its tools/ have to be told of it: "
                   f"APERTUS_BOOTSTRAP={shlex.quote(str(folder.absolute()))}", err=True)
    click.echo(json.dumps(done.record) if as_json else done.path)


if __name__ == "__main__":
    main(prog_name="tools/bootstrap")
