"""What every command that talks to a registry has: its options, its client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from apertus_image.fetch.sources import ca_bundle
from apertus_image.registry.client import Client

__all__ = ["connect", "registry_options", "say"]


def registry_options(command: Callable) -> Callable:
    """Add --plain-http and --ca, passed as `plain_http` and `ca`."""
    command = click.option(
        "--plain-http/--tls", "plain_http", default=None,
        help="Speak HTTP without TLS, or with it even on loopback. [default: with TLS, except on "
        "loopback]")(command)
    return click.option(
        "--ca", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
        help="Trust these certificates (PEM) [env: APERTUS_CA_BUNDLE]")(command)


def connect(host: str, plain_http: bool | None, ca: Path | None, connections: int = 8) -> Client:
    """A client of a registry that says on stderr what it waits for."""
    return Client(host, plain_http=plain_http, verify=str(ca) if ca else ca_bundle() or True,
                  say=say, connections=connections)


def say(line: str) -> None:
    """A line on stderr; what a progress bar has there is wiped first."""
    click.echo(f"\r\x1b[K{line}" if click.get_text_stream("stderr").isatty() else line, err=True)
