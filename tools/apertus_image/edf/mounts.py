"""Mounts: `SRC:DST[:FLAGS]` (edf.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from apertus_image.edf.document import Edf
from apertus_image.edf.finding import DOCS, Finding, Severity
from apertus_image.edf.variables import expand

__all__ = ["check", "faults", "split"]

RULE = f"a mount is SRC:DST[:FLAGS], flags joined by +, or the one flag sqsh ({DOCS}/edf.md)"
# Folders whose content is the image's; a mount over one hides it.
IMAGE_OWN = {"/", "/bin", "/etc", "/lib", "/opt", "/opt/apertus", "/sbin", "/usr", "/usr/lib",
             "/usr/local"}


def split(mount: str) -> list[str]:
    """A mount's parts; the colon of `${VAR:-}` does not part them."""
    return re.findall(r"(?:\$?\$\{[^}]*\}|[^:])+", mount)


def check(edf: Edf, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Syntax, sources that are relative or a home, destinations that hide the image's own."""
    mounts = edf.data.get("mounts")
    seen: dict[str, int] = {}
    for number, mount in enumerate(mounts if isinstance(mounts, list) else ()):
        if not isinstance(mount, str):
            continue
        for severity, what, why, next_step in faults(mount, environment):
            yield Finding(severity, f"mounts[{number}]", f"{mount}: {what}", why, next_step,
                          line=edf.line("mounts"))
        parts = split(mount)
        if len(parts) > 1 and seen.setdefault(parts[1], number) != number:
            yield Finding("error", f"mounts[{number}]", f"{parts[1]} is mounted twice",
                          f"the later one hides mounts[{seen[parts[1]]}]", "keep one of them",
                          line=edf.line("mounts"))


def faults(mount: str, environment: Mapping[str, str] = os.environ
           ) -> Iterator[tuple[Severity, str, str, str]]:
    """(severity, what, why, next step) of all that is wrong with one mount."""
    parts = split(mount)
    if not 2 <= len(parts) <= 3 or mount.startswith(":") or mount.endswith(":") or "::" in mount:
        yield "error", "not a source, a destination and flags", RULE, "write SRC:DST or SRC:DST:ro"
        return
    source, target = parts[:2]
    flags = parts[2].split("+") if len(parts) == 3 else []
    if any(not re.fullmatch("[a-z][a-z0-9_-]*", flag) for flag in flags):
        yield "error", f"{parts[2]!r} is no list of flags", RULE, "join flags with +: ro+nosuid"
    elif "sqsh" in flags and len(flags) > 1:
        yield "error", "sqsh stands alone", RULE, "leave the other flags out"
    if not target.startswith(("/", "$")):
        yield "error", f"the destination {target!r} is not absolute", RULE, "start it with /"
    elif (target.rstrip("/") or "/") in IMAGE_OWN and "sqsh" not in flags:
        yield ("warning", f"it hides what the image has in {target}",
               "a mount covers the folder below it", "mount elsewhere, /mnt say")
    if source.startswith("~"):
        yield ("error", "~ is not expanded", f"{RULE}; variables are ${{VAR}}",
               "write ${HOME}")
    elif source.startswith("./"):
        yield ("warning", "a relative source follows the folder that srun is called in",
               f"relative paths start with ./ and follow the caller ({DOCS}/edf.md)",
               "write the absolute path")
    elif not source.startswith(("/", "$")):
        yield ("error", f"the source {source!r} is neither absolute nor starts with ./",
               f"relative paths start with ./ ({DOCS}/edf.md)", "write the absolute path")
    if _home(source, environment):
        yield ("warning", "a home folder is mounted",
               "what is installed below it, in ~/.local say, comes before the image's own "
               f"packages; CSCS discourages it ({DOCS}/edf.md)",
               "mount the folders that the job needs")


def _home(source: str, environment: Mapping[str, str]) -> bool:
    path = os.path.normpath(expand(source, environment) or source)
    home = environment.get("HOME", "")
    return (bool(re.match(r"(/users|/home)(/[^/]+)?$", path)) or source.startswith("~")
            or bool(re.fullmatch(r"\$\{HOME(:-)?\}/?", source))
            or (len(home) > 1 and path == os.path.normpath(home)))
