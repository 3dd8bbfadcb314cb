"""What every command knows of the clone it was started from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from apertus_image.application.prepared import USUAL_PLACE, checked
from apertus_image.errors import UserError
from apertus_image.store.store import Store

__all__ = ["PINS", "PROJECT", "maker_option", "place_option", "setup_option", "source_place",
           "store_option"]

PROJECT = Path(__file__).resolve().parents[3]
PINS = PROJECT / "nix/pins"


def store_option(command: Callable) -> Callable:
    """Add --store, which passes a Store to the command (trap 11)."""
    return click.option(
        "--store", metavar="DIR", envvar="APERTUS_STORE", default=None,
        callback=lambda _context, _option, value: Store(Path(value).resolve() if value else None),
        help="Keep the store below DIR (DIR/nix/store), for a user without /nix. "
        "[env: APERTUS_STORE]",
    )(command)


def maker_option(command: Callable) -> Callable:
    """Add --maker, passed as `wanted`."""
    return click.option(
        "--maker", "wanted", type=click.Choice(["auto", "nix2container", "emitter"]),
        default="auto", show_default=True,
        help="What makes the layers; both give the same bytes.",
    )(command)


def place_option(command: Callable) -> Callable:
    """Add --source-at, passed as `at`: None where it is not given."""
    return click.option(
        "--source-at", "at", metavar="PATH", default=None,
        help=f"Where they go in the image.  [default: {USUAL_PLACE}]",
    )(command)


def source_place(at: str | None, *, source: bool) -> str:
    """Where one's own code goes in the image, said by --source-at or not.

    Args:
        source: whether there is code, by --source.

    Raises:
        UserError: no code may lie there, or there is none.
    """
    if at is not None and not source:
        raise UserError("--source-at is about --source, which is not given",
                        got=f"--source-at {at}",
                        next_step="add --source DIR, or leave --source-at out")
    return checked(USUAL_PLACE if at is None else at)


def setup_option(command: Callable) -> Callable:
    """Add --setup, which tools/run acts on before Python is started."""
    return click.option(
        "--setup", is_flag=True, expose_value=False,
        help="First install what is missing on this machine (Debian 12 or newer).",
    )(command)
