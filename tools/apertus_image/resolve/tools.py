"""The lock of the tools' own wheels: which files of requirements.lock a machine takes.

requirements.lock has the hashes of every file of a version. What tools/bootstrap installs is
one file of each, for a machine that need not be this one.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import requests
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from apertus_image.errors import UserError
from apertus_image.fetch.sources import ca_bundle
from apertus_image.fetch.web import new_session
from apertus_image.pins import lockfile, requirements
from apertus_image.resolve.platform import PYTHON
from apertus_image.resolve.wheels import MACHINES, entry_of, servers

__all__ = ["locked", "resolve"]

REQUIREMENTS = "../../requirements.lock"
"""As a lock names it: from the folder of the locks."""

PIN = re.compile(r"(?m)^([A-Za-z0-9._-]+)==(\S+)((?:[^\n]*\\\n)*[^\n]*)")


def resolve(project: Path, pins: Path) -> dict[str, Any]:
    """Choose the wheels of pyproject.toml's dependencies, and of theirs, for both machines.

    Raises:
        UserError: requirements.lock lacks one of them, or none of the files it has fits.
    """
    known = locked((pins / REQUIREMENTS).read_text(encoding="utf-8"))
    wanted = tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"]
    with new_session(ca_bundle() or True, 1) as session:
        sections = {machine: _closure(session, servers(), machine, wanted, known)
                    for machine in MACHINES}
    return {
        "format": lockfile.FORMAT,
        "kind": "tools",
        "requirements": {REQUIREMENTS: requirements.sha256(pins / REQUIREMENTS)},
        "python": f"{PYTHON[0]}.{PYTHON[1]}",
        **sections,
    }


def locked(text: str) -> dict[str, tuple[str, set[str]]]:
    """Canonical name -> (version, SHA-256 of each file) of a requirements file with hashes."""
    return {canonicalize_name(name): (version, set(re.findall(r"sha256:([0-9a-f]{64})", rest)))
            for name, version, rest in PIN.findall(text)}


def _closure(session: requests.Session, indexes: list[str], machine: str, wanted: list[str],
             known: dict[str, tuple[str, set[str]]]) -> list[dict[str, Any]]:
    environment = {
        "python_version": f"{PYTHON[0]}.{PYTHON[1]}", "python_full_version": f"{PYTHON[0]}."
        f"{PYTHON[1]}.0", "implementation_name": "cpython", "os_name": "posix", "extra": "",
        "platform_machine": machine, "platform_python_implementation": "CPython",
        "platform_system": "Linux", "sys_platform": "linux"}
    found: dict[str, dict[str, Any]] = {}
    queue = list(wanted)
    while queue:
        need = Requirement(queue.pop())
        name = canonicalize_name(need.name)
        if name in found or (need.marker and not need.marker.evaluate(environment)):
            continue
        version, hashes = known.get(name, ("", set()))
        if not version:
            raise UserError("requirements.lock lacks a package that the tools need", got=name,
                            next_step="make requirements.lock anew from pyproject.toml")
        entry = entry_of(session, indexes, machine, name, version)
        if entry["sha256"] not in hashes:
            raise UserError("requirements.lock does not have the wheel that fits", where=machine,
                            expected="one of its hashes", got=f"{entry['file']} {entry['sha256']}",
                            next_step="make requirements.lock anew from pyproject.toml")
        found[name] = entry
        queue += entry["requires"]
    return [found[name] for name in sorted(found)]
