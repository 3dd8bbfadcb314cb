"""The one way this project reports a fault that its user can mend."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["UserError", "raise_all", "run_builder"]


class UserError(Exception):
    """A fault in the input or the surroundings, told so that it can be mended.

    Args:
        what: one line, what went wrong.
        where: the file, URL, package or entry it went wrong in.
        expected: what should have been there.
        got: what was there.
        next_step: what the user can do, a command if there is one.
    """

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        expected: object = None,
        got: object = None,
        next_step: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.got = got
        self.next_step = next_step
        super().__init__(str(self))

    def __str__(self) -> str:
        fields = [
            ("where", self.where),
            ("expected", self.expected),
            ("got", self.got),
            ("next", self.next_step),
        ]
        lines = [self.what]
        lines += [f"  {name + ':':<10}{value}" for name, value in fields if value is not None]
        return "\n".join(lines)


def raise_all(problems: Iterable[UserError], summary: str) -> None:
    """Raise one error that lists every problem; do nothing when there is none.

    Validation collects first and raises once, so that a user mends all of a
    file's faults in one go. `summary` heads the list; `{n}` in it is the count.
    """
    found = list(problems)
    if len(found) == 1:
        raise found[0]
    if found:
        body = "\n".join(str(problem) for problem in found)
        raise UserError(summary.format(n=len(found)) + "\n" + body)


def run_builder(build: Callable[..., None]) -> None:
    """The main program of a builder: `MODULE SPEC OUT [MANIFEST]`.

    A UserError, and a full disk, are told on stderr with exit code 1; anything else is a
    bug and keeps its traceback.
    """
    spec, *outputs = sys.argv[1:]
    try:
        build(json.loads(Path(spec).read_text(encoding="utf-8")), *map(Path, outputs))
    except UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        full = UserError("the disk is full", where=error.filename or outputs[0],
                         next_step="make room (nix-collect-garbage), then run it again")
        sys.exit(f"error: {full}")
