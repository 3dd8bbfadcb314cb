"""The release as a state machine: steps in order, each of which knows whether it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from apertus_image.errors import UserError
from apertus_image.release.state import Done, Folder, digest_of

__all__ = ["Step", "go_on"]


class Step(Protocol):
    """One step of a release.

    Attributes:
        name: as the profile and the status name it.
    """

    name: str

    def run(self, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Do it, or go on with it; its result, which is the same whenever it is done.

        Args:
            results: of the steps before it, by name.
        """

    def holds(self, results: dict[str, dict[str, Any]], result: dict[str, Any]) -> bool:
        """Whether what an earlier run did is still there."""


@dataclass(frozen=True)
class _Silent:
    def __call__(self, _step: str, _what: str) -> None: ...


def go_on(
    steps: Sequence[Step], folder: Folder, only: Sequence[str] | None = None,
    tell: Callable[[str, str], None] = _Silent(),
) -> dict[str, dict[str, Any]]:
    """Run the steps that are not done; the results of all.

    A finished step is taken as it is if all before it gave the same results, and what it made
    is still there.

    Args:
        only: stop after the last of these; what is missing before it is done too.
        tell: a step's name, and `done`, `begun` or `finished`.

    Raises:
        UserError: a step's; or a disk is full, or a folder gone.
    """
    results: dict[str, dict[str, Any]] = {}
    last = [step.name for step in steps if not only or step.name in only][-1]
    for step in steps:
        before = digest_of(list(results.values()))
        found = folder.read(step.name)
        if found and found.before == before and step.holds(results, found.result):
            tell(step.name, "done")
            results[step.name] = found.result
        else:
            tell(step.name, "begun")
            try:
                times = folder.begin(step.name)
                result = step.run(results)
                times["ended"] = round(time.time(), 3)
                folder.write(step.name, Done(result, before, times))
            except OSError as error:
                raise UserError(f"the step {step.name} could not be finished",
                                where=error.filename or folder.path, got=error.strerror or error,
                                next_step="mend that, make room if it is full, and give the same "
                                "command again") from error
            tell(step.name, "finished")
            results[step.name] = result
        if step.name == last:
            break
    return results
