"""tools/test: the whole test suite, after what it needs has been built."""

from __future__ import annotations

import subprocess
import sys

import click

from apertus_image.build.maker import choose
from apertus_image.build.run import build
from apertus_image.bundle import plan as folder
from apertus_image.commands.prefetch import bring, bring_files
from apertus_image.commands.project import PINS, PROJECT, setup_option
from apertus_image.fetch import plan
from apertus_image.store.store import Store
from apertus_image.tree.machine import MACHINES, this_machine
from apertus_image.ui.errors import command_errors

__all__ = ["main"]

# A file's tests stay in one process, in their order, as they share what costs most.
SPREAD = ("--numprocesses=auto", "--maxprocesses=8", "--dist=loadfile")


@click.command(context_settings={"ignore_unknown_options": True})
@setup_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@command_errors
def main(arguments: tuple[str, ...]) -> None:
    """Build the smoke image, then run every test; ARGUMENTS go to pytest.

    The whole suite runs in as many processes as there are cores, at most 8; -n0 is one after
    the other. With a path, or any other word that is no option, pytest has its own way.
    Tests of the full image run where it has been built, and say so where it has not.

    \b
    Example:
      tools/test --setup
      tools/test -n0
      tools/test tests/oci -x
    """
    store = Store()
    maker = choose(PROJECT, store)
    click.echo(f"layers are made by {maker.name}: {maker.why}", err=True)
    bring([f"smoke-image-{machine}" for machine in MACHINES], store, maker)
    # The self-contained folder of this machine is made by its tests, which fetch nothing.
    _, boot = plan.inputs(PINS, [], this_machine())
    bring_files(folder.inputs(PINS, this_machine()), boot, store)
    build(PROJECT, "smoke-image", store, maker, link=PROJECT / ".roots" / "smoke-image")
    # Processes that are told of a path which is not there run the others and do not say so.
    spread = SPREAD if all(word.startswith("-") for word in arguments) else ()
    command = [sys.executable, "-m", "pytest", *spread, *arguments]
    # pytest's exit code 5, no test ran, is a failure here too.
    sys.exit(subprocess.run(command, cwd=PROJECT).returncode)


if __name__ == "__main__":
    main(prog_name="tools/test")
