"""One finding of the lint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["DOCS", "ENROOT", "NOTES", "PYXIS", "Finding", "Severity"]

Severity = Literal["error", "warning", "note"]

# Where a rule is from: what a reader can look up.
DOCS = "eth-cscs/cscs-docs 80abed1, software/container-engine"
ENROOT = "NVIDIA/enroot 8ea147d, src/docker.sh"
NOTES = "notes on Enroot and CSCS"
PYXIS = "NVIDIA/pyxis 1075199; pyxis#67, pyxis#127"


@dataclass(frozen=True)
class Finding:
    """Something in an EDF that will not do what it seems to.

    Attributes:
        severity: `error`, it cannot start or means something else; `warning`, it starts and
            may fail or mislead; `note`, what this machine cannot tell.
        key: dotted, `env.NCCL_NET` say; `mounts[2]` for a list's member.
        what: one line.
        why: why it matters, with its source.
        next_step: what to do.
        file: the EDF it is in, which may be a base of the linted one.
        line: from 1; None where it is about what is not there.
    """

    severity: Severity
    key: str
    what: str
    why: str
    next_step: str
    file: str = ""
    line: int | None = None
