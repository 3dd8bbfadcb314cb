"""What every command knows of the clone it was started from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from apertus_image.store.store import Store

__all__ = ["PINS", "PROJECT", "maker_option", "setup_option", "store_option"]

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


def setup_option(command: Callable) -> Callable:
    """Add --setup, which tools/run acts on before Python is started."""
    return click.option(
        "--setup", is_flag=True, expose_value=False,
        help="First install what is missing on this machine (Debian 12 or newer).",
    )(command)
