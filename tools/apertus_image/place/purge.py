"""File systems that delete what was not read for some days.

CSCS's scratch file systems purge by access time, file by file (notes on Enroot and CSCS, 4):
a registry or an image store there loses parts while its index says all is well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["ADVICE", "VARIABLE", "Purge", "purged", "warning"]

VARIABLE = "APERTUS_PURGED"

# Prefix -> days without access (eth-cscs/cscs-docs 80abed1, storage).
KNOWN = {"/iopsstor/scratch": 14, "/capstor/scratch": 30}

ADVICE = (
    "publish what must last to Store or the project's space; never touch files only to renew "
    "their access times, which the site forbids; a record's checksums find what was lost"
)


@dataclass(frozen=True)
class Purge:
    """A purge that a path falls under.

    Attributes:
        path: the path, its links resolved.
        prefix: the folder below which files are deleted, as the table names it.
        days: how many days a file lasts that nobody reads.
        advice: what to do instead.
    """

    path: Path
    prefix: str
    days: int
    advice: str = ADVICE


def purged(path: Path, environment: Mapping[str, str] = os.environ) -> Purge | None:
    """The purge that `path` falls under, or None; the path need not be there yet.

    `.edf_imagestore` and `.enroot` on scratch are purged like everything else there. A site
    adds its own prefixes in APERTUS_PURGED: `/path=14:/other=30`, in days. The longest prefix
    counts; the site's own before a known one.

    Raises:
        UserError: APERTUS_PURGED is malformed.
    """
    real = Path(os.path.realpath(path))
    table = KNOWN | _site(environment.get(VARIABLE, ""))
    found = [prefix for prefix in table if real.is_relative_to(os.path.realpath(prefix))]
    if not found:
        return None
    prefix = max(found, key=lambda each: len(Path(os.path.realpath(each)).parts))
    return Purge(real, prefix, table[prefix])


def warning(path: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """What to tell a user who writes to `path`: two lines, or None where nothing is purged.

    Raises:
        UserError: APERTUS_PURGED is malformed.
    """
    found = purged(path, environment)
    if found is None:
        return None
    return (f"{found.path} is on scratch: {found.prefix} deletes each file that nobody read for "
            f"{found.days} days\n  advice:   {found.advice}")


def _site(value: str) -> dict[str, int]:
    table = {}
    for entry in filter(None, value.split(":")):
        match = re.fullmatch(r"(/[^=]*)=([1-9][0-9]{0,4})", entry.strip())
        if match is None:
            raise UserError(f"{VARIABLE} is malformed", where=entry,
                            expected="an absolute path, =, a number of days: /scratch=30",
                            got=value, next_step=f"mend {VARIABLE}, or unset it")
        table[os.path.normpath(match[1])] = int(match[2])
    return table
