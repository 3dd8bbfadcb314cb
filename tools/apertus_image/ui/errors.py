"""Errors of the user's, told without a traceback."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import click

from apertus_image.errors import UserError

__all__ = ["command_errors"]


def command_errors(command: Callable) -> Callable:
    """Turn a UserError into its text on stderr and exit code 1."""

    @functools.wraps(command)
    def wrapped(*arguments, **options):
        try:
            return command(*arguments, **options)
        except UserError as error:
            click.echo(click.style("error: ", fg="red", bold=True) + str(error), err=True)
            sys.exit(1)

    return wrapped
