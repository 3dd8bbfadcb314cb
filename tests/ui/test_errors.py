"""Faults of the user's: their text and an exit code, no traceback; bugs stay bugs."""

from __future__ import annotations

import click
import pytest
from apertus_image.errors import UserError
from apertus_image.ui.errors import command_errors
from click.testing import CliRunner


@click.command()
@click.argument("fault")
@command_errors
def command(fault: str) -> None:
    if fault == "user":
        raise UserError("it broke", where="here", next_step="mend it")
    if fault == "bug":
        raise ZeroDivisionError
    click.echo("done")


def test_a_users_fault_goes_to_stderr_alone():
    result = CliRunner().invoke(command, ["user"])
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.splitlines() == [
        "error: it broke", "  where:    here", "  next:     mend it"]


def test_a_bug_is_not_hidden():
    assert isinstance(CliRunner().invoke(command, ["bug"]).exception, ZeroDivisionError)


def test_without_a_fault_nothing_is_added():
    result = CliRunner().invoke(command, ["none"])
    assert (result.exit_code, result.output) == (0, "done\n")


def test_help_survives_the_decoration():
    assert command.callback.__wrapped__.__name__ == "command"
    with pytest.raises(SystemExit):
        command(["--help"])
