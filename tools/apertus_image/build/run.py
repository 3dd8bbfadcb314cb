"""One `nix build` of this flake."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from apertus_image.build.maker import Maker
from apertus_image.errors import UserError
from apertus_image.store.store import Store

__all__ = ["build", "root"]


def build(
    project: Path,
    attribute: str,
    store: Store,
    maker: Maker,
    *,
    link: Path | None,
    extra: Sequence[str] = (),
) -> Path:
    """Build one output of the flake and give its store path.

    Args:
        project: root of the clone.
        attribute: name below `packages.<this system>`.
        link: the out-link, which is a garbage-collector root too (trap 9); None for none.
        extra: further arguments for `nix build`.

    Raises:
        UserError: Nix failed; its own words went to stderr already.
    """
    command = [
        "nix", *store.nix_args(), "build", f"{project}#{attribute}", *maker.arguments,
        # Enough of a failed builder's words to hold a whole error of this project's.
        "--option", "log-lines", "60", *extra,
        *(["--out-link", str(link)] if link else ["--no-link"]),
    ]
    # Nix's own progress goes to stderr; the path is asked for on stdout.
    result = subprocess.run(
        [*command, "--json"], stdout=subprocess.PIPE, text=True,
        env=os.environ | store.environment(project),
    )
    if result.returncode:
        raise UserError(
            f"the build of {attribute} failed; Nix's message is above",
            where=f"{project}#{attribute}",
            next_step="mend what it names; finished parts are kept and not built again",
        )
    return Path(json.loads(result.stdout)[0]["outputs"]["out"])


def root(project: Path, attribute: str, store: Store, maker: Maker) -> Path:
    """Build an output and keep it from the garbage collector under .roots (trap 9)."""
    link = project / ".roots" / attribute
    link.parent.mkdir(exist_ok=True)
    return build(project, attribute, store, maker, link=link)
