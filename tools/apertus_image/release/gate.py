"""The release gate: what is released is what a commit says, and all of it is pinned.

Nothing is written and no network is asked. Every finding is told in one message (cases 31, 32).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError, raise_all
from apertus_image.pins import flake, lockfile
from apertus_image.record.source import SourceState, state
from apertus_image.resolve.debian import WORLDS
from apertus_image.store.store import Store

__all__ = ["GateResult", "checkout", "gate", "lock_faults"]

LOCKS = ("wheels", *WORLDS, "go")


@dataclass(frozen=True)
class GateResult:
    """What the gate has let pass.

    Attributes:
        project: the clone that the image is built from.
        sources: the users' checkouts, in the order given.
    """

    project: SourceState
    sources: list[SourceState]

    @property
    def dirty(self) -> bool:
        """Whether anything differs from its commit: names and records then say -dirty."""
        return any(each.dirty for each in (self.project, *self.sources))


def gate(
    project: Path, sources: Sequence[Path] = (), *, allow_dirty: bool = False,
    store: Store | None = None,
) -> GateResult:
    """Refuse to release what is not a commit's, or not pinned.

    Args:
        project: root of this project's clone.
        sources: roots of users' checkouts.
        allow_dirty: let pass what differs from a commit, and say so in the result. A lock that
            does not match is refused all the same: nobody could say what was built.
        store: only for evaluating flake.nix.

    Raises:
        UserError: listing every finding; or a folder is no checkout.
    """
    result = GateResult(state(project), [state(each) for each in sources])
    found = list(lock_faults(project, store or Store()))
    if not allow_dirty:
        found += [each for one in (result.project, *result.sources) for each in one.findings]
    raise_all(found, "this cannot be released: {n} findings")
    return result


def checkout(folder: Path, *, allow_dirty: bool = False) -> SourceState:
    """The same for one user's checkout alone, before it is built.

    Raises:
        UserError: listing every finding, unless allowed; or it is no checkout.
    """
    found = state(folder)
    if not allow_dirty:
        raise_all(found.findings, f"{folder} is not what its commit says: {{n}} findings")
    return found


def lock_faults(project: Path, store: Store) -> Iterator[UserError]:
    """Locks that are malformed, older than their requirements, or not the flake's (case 31)."""
    try:
        yield from flake.faults(_declared(project, store), project / "flake.lock")
    except UserError as error:
        yield error
    for name in LOCKS:
        try:
            lockfile.load(project / "nix/pins" / f"{name}.json")
        except UserError as error:
            yield error


def _declared(project: Path, store: Store) -> dict[str, Any]:
    """`inputs` of flake.nix, which Nix itself reads as plain values."""
    text = json.dumps(str(project.resolve() / "flake.nix"), ensure_ascii=False)
    file = text.replace("${", "\\${")
    command = ["nix-instantiate", *store.nix_args(), "--eval", "--strict", "--json", "--expr",
               f"(import (/. + {file})).inputs or {{ }}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True,
                                env=os.environ | store.environment(project))
    except FileNotFoundError as error:
        raise UserError("Nix is not installed", next_step="tools/build --setup") from error
    if result.returncode:
        raise UserError("flake.nix cannot be read", where=project / "flake.nix",
                        got=result.stderr.strip()[-2000:], next_step="git checkout flake.nix")
    return json.loads(result.stdout)
