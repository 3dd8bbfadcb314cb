"""One `nix build` of this flake."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from apertus_image.build import tied
from apertus_image.build.maker import Maker, choose, folder_url
from apertus_image.errors import UserError
from apertus_image.store import namespaces
from apertus_image.store.store import Store

__all__ = ["BOOTSTRAP", "build", "programs", "root", "work"]

BOOTSTRAP = "APERTUS_BOOTSTRAP"
WORK = "APERTUS_WORK"


def work(project: Path) -> Path:
    """Where results and roots are linked: the clone, or where a self-contained folder says."""
    return Path(os.environ.get(WORK) or project)


def programs(project: Path, store: Store, maker: Maker | str) -> Path:
    """The folder of the pinned programs that commands run themselves.

    A self-contained folder's own, whose loader is found without /nix; else the toolchain's.
    Both are the same packages.

    Args:
        maker: the maker, or what `choose` is told.
    """
    if folder := os.environ.get(BOOTSTRAP):
        return Path(folder) / "programs"
    if isinstance(maker, str):
        maker = choose(project, store, maker)
    return store.physical(str(root(project, "toolchain", store, maker))) / "bin"


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
        UserError: Nix failed, its own words went to stderr already; or it cannot build here.
    """
    if store.root:
        namespaces.insist()
    # Without .git Nix would look for one in the folders above.
    flake = str(project) if (project / ".git").exists() else folder_url(project)
    command = [
        "nix", *store.nix_args(), "build", f"{flake}#{attribute}", *maker.arguments,
        # Enough of a failed builder's words to hold a whole error of this project's.
        "--option", "log-lines", "60", *extra,
        *(["--out-link", str(link)] if link else ["--no-link"]),
    ]
    # Nix's own progress goes to stderr; the path is asked for on stdout.
    result = tied.run([*command, "--json"], os.environ | store.environment(project))
    if result.returncode:
        raise UserError(
            f"the build of {attribute} failed; Nix's message is above",
            where=f"{project}#{attribute}",
            next_step="mend what it names; finished parts are kept and not built again",
        )
    return Path(json.loads(result.stdout)[0]["outputs"]["out"])


def root(project: Path, attribute: str, store: Store, maker: Maker) -> Path:
    """Build an output and keep it from the garbage collector under .roots (trap 9).

    Raises:
        UserError: what `build` raises, or the clone cannot be written to.
    """
    link = work(project) / ".roots" / attribute
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("there is no place for what keeps a build in the store", where=link.parent,
                        got=error.strerror,
                        next_step="set APERTUS_WORK to a folder of yours") from error
    return build(project, attribute, store, maker, link=link)
