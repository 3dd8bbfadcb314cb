"""Composing an EDF for an artefact and a workload; the same bytes for the same arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from apertus_image.edf.finding import DOCS
from apertus_image.edf.hooks import OFI
from apertus_image.edf.image import DIGEST
from apertus_image.edf.mounts import faults
from apertus_image.edf.network import SETTINGS
from apertus_image.errors import UserError, raise_all
from apertus_image.squashfs.superblock import MAGIC

__all__ = ["MOUNTS", "WORKLOADS", "Choices", "artefact", "compose"]

WORKLOADS = ("one-node", "multi-node")
MOUNTS = ("/capstor:/capstor", "/iopsstor:/iopsstor")
"""CSCS's file systems, under their own names; no home folder."""


@dataclass(frozen=True)
class Choices:
    """What a site or a job may want otherwise.

    Attributes:
        mounts: `SRC:DST[:FLAGS]`.
        workdir: folder in the container that the job starts in.
        writable: whether the container's file system can be written to.
    """

    mounts: Sequence[str] = MOUNTS
    workdir: str = "/tmp"
    writable: bool = True


def artefact(text: str) -> str:
    """The value of `image` for a `.sqsh`, or for a registry reference by digest.

    Raises:
        UserError: no such file, or a reference that a tag alone names.
    """
    if text.endswith(".sqsh") or text.startswith((".", "/")):
        file = Path(text).resolve()
        if not file.is_file():
            raise UserError("no such image", where=text, expected="a .sqsh",
                            next_step="tools/export-sqsh writes one")
        with file.open("rb") as data:
            start = data.read(len(MAGIC))
        if start != MAGIC:
            raise UserError("not a SquashFS file", where=file, expected=f"{MAGIC!r} at its start",
                            got=repr(start), next_step="name the .sqsh itself")
        return str(file)
    reference = text.removeprefix("docker://")
    if not DIGEST.search(reference):
        raise UserError("a registry reference needs a digest", where=text,
                        expected="[REGISTRY#]IMAGE@sha256:DIGEST",
                        got="no whole digest" if "@" in reference else
                        "a tag, which can be moved" if ":" in reference else "no digest",
                        next_step="take the digest that tools/push-image printed, or name a file "
                        "that ends in .sqsh")
    # Enroot 3 knows a registry by its #, Enroot 4 by either.
    first, slash, rest = reference.partition("/")
    if slash and "#" not in reference and re.search(r"[.:]", first):
        return f"{first}#{rest}"
    return reference


def compose(image: str, workload: str, choices: Choices = Choices()) -> str:
    """The text of an EDF, each value with its reason in the line above.

    Args:
        image: as `artefact` gives it.
        workload: one of WORKLOADS.

    Raises:
        UserError: naming every choice that the engine would refuse.
    """
    raise_all(_refused(choices), "the EDF would not work: {n} faults")
    several = workload == "multi-node"
    lines = [f"# apertus-image, {workload}; made by tools/edf write.",
             f"# Reasons: docs/cscs-launch.md; rules: {DOCS}.", ""]

    def say(reason: str, key: str, value: object) -> None:
        lines.extend([f"# {reason}", tomli_w.dumps({key: value}, multiline_strings=False).strip()])

    say("The artefact by its own name: a path keeps the identity, a reference the digest.",
        "image", image)
    say("Documentation and code differ on the default; the job's command runs, nothing else.",
        "entrypoint", False)
    say("The SSH and MPS hooks write; what is written goes when the job ends."
        if choices.writable else "Nothing writes into the container; no SSH and no MPS hook.",
        "writable", choices.writable)
    say("A folder that every user can write to; in memory, gone with the job.",
        "workdir", choices.workdir)
    say("No home folder: packages in ~/.local would come before the image's.",
        "mounts", list(choices.mounts))
    if several:
        lines += ["", "[annotations]"]
        # tomli-w would write one table for each dot; the engine wants one form throughout.
        lines += ["# Brings the site's libfabric and NCCL plugin, and the CXI hook with them.",
                  "# No .variant: the artifact network stack, the default, ignores it.",
                  f'{OFI} = "true"', "", "[env]"]
        for name, (value, what) in SETTINGS.items():
            say(what[0].upper() + what[1:] + ".", name, value)
    return "\n".join(lines) + "\n"


def _refused(choices: Choices) -> Iterator[UserError]:
    for mount in choices.mounts:
        for severity, what, _why, next_step in faults(mount):
            if severity == "error":
                yield UserError("a mount cannot be used", where=mount,
                                expected="SRC:DST[:FLAGS]", got=what, next_step=next_step)
    if not choices.workdir.startswith(("/", "$")):
        yield UserError("the workdir is not absolute", expected="a folder of the container",
                        got=choices.workdir, next_step="start it with /")
