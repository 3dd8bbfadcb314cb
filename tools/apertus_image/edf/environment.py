"""The [env] table: references among its entries, and values that are stale."""

from __future__ import annotations

import re
from collections.abc import Iterator

from apertus_image.edf.document import Edf
from apertus_image.edf.finding import DOCS, NOTES, Finding
from apertus_image.edf.hooks import OFI
from apertus_image.edf.network import ELSEWHERE, SETTINGS
from apertus_image.edf.variables import names

__all__ = ["check"]

NCCL = "eth-cscs/cscs-docs 80abed1, software/communication"

# Variable -> (what it does to this project's images, why, what to do).
HARMFUL = {
    "LD_LIBRARY_PATH": ("outranks the run paths of the wheels' libraries",
                        "the loader's cache finds what hooks inject (notes on traps, 15)",
                        "take it out"),
    "LD_PRELOAD": ("is loaded into every process of the container",
                   "the host's libraries are not there (notes on the reference system, 7)",
                   "set it empty: LD_PRELOAD = \"\""),
    "EDF_IMAGESTORE": ("has no effect in the container",
                       f"the engine reads it on the host, before the start ({DOCS}/edf.md)",
                       "export it where srun is called"),
    "EDF_PATH": ("has no effect in the container",
                 f"the engine reads it on the host, before the start ({DOCS}/edf.md)",
                 "export it where srun is called"),
}


def check(edf: Edf) -> Iterator[Finding]:
    """Entries that do not do what they seem to."""
    table = edf.data.get("env")
    for name, value in (table.items() if isinstance(table, dict) else ()):
        where = f"env.{name}"
        line = edf.line(where)
        if not isinstance(value, str):
            yield Finding("error", where, f"{value!r} is not a string",
                          f"[env] holds strings ({DOCS}/edf.md)", f'{name} = "{value}"', line=line)
            continue
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            yield Finding("error", where, f"{name!r} is no name of a variable",
                          f"Enroot drops it without a word ({NOTES}, 2)",
                          "letters, digits and _", line=line)
        for other in names(value):
            if other in edf.merged("env"):
                yield Finding("error", where, f"it refers to {other}, which [env] sets as well",
                              f"entries cannot refer to each other: this is the host's value "
                              f"({DOCS}/edf.md)", f"write the value of {other} out", line=line)
        if name in HARMFUL and value:
            what, why, next_step = HARMFUL[name]
            yield Finding("warning", where, f"{name} {what}", why, next_step, line=line)
    yield from _nccl(edf)


def _nccl(edf: Edf) -> Iterator[Finding]:
    env = edf.merged("env")

    def found(severity, name: str, what: str, why: str, next_step: str) -> Finding:
        return Finding(severity, f"env.{name}", what, why, next_step, line=edf.line(f"env.{name}"))

    if env.get("NCCL_NET_PLUGIN"):
        yield found("warning", "NCCL_NET_PLUGIN", "NCCL_NET_PLUGIN outranks NCCL_NET",
                    "a value made for another image selects a plugin that is not there "
                    "(eth-cscs/alps-extended-images 2f16898)", 'NCCL_NET_PLUGIN = ""')
    on = edf.merged("annotations").get(OFI) == "true"
    if not on:
        if env.get("NCCL_NET") == SETTINGS["NCCL_NET"][0]:
            yield found("error", "NCCL_NET", "NCCL_NET asks for a plugin that no hook brings",
                        f"NCCL stops where the network it is told of is missing ({NCCL})",
                        f'annotation {OFI} = "true", or take NCCL_NET out')
        return
    for name, (value, _) in SETTINGS.items():
        # What NCCL_NET_PLUGIN must be is said above.
        if name == "NCCL_NET_PLUGIN" or env.get(name, value) == value:
            continue
        other = ELSEWHERE.get(name, {}).get(env[name])
        severity = "warning" if name == "NCCL_NET" else "note"
        yield found(severity, name, f"{env[name]!r} is not what CSCS documents, {value!r}"
                    + (f", but {other} have it" if other else ""),
                    f"{SETTINGS[name][1]} ({NCCL})", "measure both, or take the documented one")
    if "NCCL_NET" not in env:
        yield found("note", "NCCL_NET", "NCCL_NET is not set",
                    "without it NCCL falls back to TCP without an error where the plugin does not "
                    f"load ({NCCL})", 'NCCL_NET = "AWS Libfabric"')
