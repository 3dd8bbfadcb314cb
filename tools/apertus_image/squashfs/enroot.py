"""The files that Enroot's importer generates, with its own meaning (notes on Enroot, 1).

No tag, date or path of a machine is in them, so the name of an export does not change its
bits. What Enroot would mangle is refused with a word.
"""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Mapping
from typing import Any

from apertus_image.errors import UserError, raise_all
from apertus_image.squashfs.node import Node, Piece

__all__ = ["generated"]

RC_LOCAL = """\
# Sourced by /etc/rc before it starts the command. Pyxis writes its own here,
# unless the entry point is enabled.
"""


def generated(config: Mapping[str, Any]) -> list[Node]:
    """/etc/rc, rc.local, environment and fstab, and the working directory.

    Raises:
        UserError: listing every value that Enroot would mangle.
    """
    raise_all(_mangled(config), "the image's config has {n} values that Enroot would mangle")
    texts = {
        "/etc/environment": "".join(f"{each}\n" for each in config.get("Env") or []),
        "/etc/fstab": "".join(
            f"${{ENROOT_ROOTFS}}{path} {path} none x-create=dir,bind,rw,nosuid,nodev 0 0\n"
            for path in sorted(config.get("Volumes") or {})),
        "/etc/rc": _rc(config),
        "/etc/rc.local": RC_LOCAL,
    }
    nodes = [Node(path, "file", 0o644, len(data := os.fsencode(text)),
                  pieces=(Piece(len(data), data=data),)) for path, text in texts.items()]
    return [*nodes, Node(_workdir(config), "dir", 0o755)]


def _workdir(config: Mapping[str, Any]) -> str:
    return posixpath.normpath(config.get("WorkingDir") or "/").replace("//", "/")


def _rc(config: Mapping[str, Any]) -> str:
    """Labels as comments; change to the working directory; rc.local; the command.

    Pyxis needs rc.local sourced and the arguments executed (notes on Enroot, 2).
    """
    # A line end would make shell code of the rest; Enroot makes it a blank.
    labels = "".join(f"# {' '.join(f'{key} {value}'.splitlines())}\n"
                     for key, value in (config.get("Labels") or {}).items())
    workdir = shlex.quote(_workdir(config))
    entry = [shlex.quote(word) for word in config.get("Entrypoint") or []]
    command = [shlex.quote(word) for word in config.get("Cmd") or []]
    default = " ".join([*entry, *command]) or "/bin/sh"
    given = " ".join([*entry, '"$@"'])
    return (
        f"{labels}\n"
        f"mkdir -p {workdir} 2> /dev/null\n"
        f"cd {workdir} && unset OLDPWD || exit 1\n\n"
        "if [ -s /etc/rc.local ]; then\n    . /etc/rc.local\nfi\n\n"
        f"if [ $# -gt 0 ]; then\n    exec {given}\nelse\n    exec {default}\nfi\n"
    )


def _mangled(config: Mapping[str, Any]) -> list[UserError]:
    def told(what: str, value: str, why: str) -> UserError:
        return UserError(f"Enroot would mangle {what}", got=repr(value), expected=why,
                         next_step="mend the image's config")

    found = []
    for each in config.get("Env") or []:
        if "\n" in each:
            found.append(told("an Env entry", each, "one line: /etc/environment has no quoting"))
        if "\0" in each:
            found.append(told("an Env entry", each, "no zero byte: it ends the value"))
        if "${" in each:
            found.append(told("an Env entry", each, "no ${…}: it is replaced from the host"))
    workdir = config.get("WorkingDir") or "/"
    if not workdir.startswith("/") or ".." in workdir.split("/") or {"\n", "\0"} & {*workdir}:
        found.append(told("the working directory", workdir, "an absolute path, in one line"))
    found += [told("a word of the command", word, "no zero byte: it ends the word")
              for word in [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
              if "\0" in word]
    found += [told("a volume", path, "an absolute path without blanks and backslashes: start fails")
              for path in config.get("Volumes") or {}
              if not path.startswith("/") or any(c.isspace() or c in "\\\0" for c in path)]
    return found
