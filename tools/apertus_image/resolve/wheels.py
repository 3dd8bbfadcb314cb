"""The lock of wheels: uv chooses the versions, the index says what the files are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import requests
from packaging.metadata import parse_email
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    canonicalize_version,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion

from apertus_image.errors import UserError
from apertus_image.fetch.index import IndexFile, project_files
from apertus_image.fetch.remote import wheel_metadata
from apertus_image.fetch.sources import ca_bundle, wheel_indexes
from apertus_image.fetch.web import TIMEOUT, Failed, insist, new_session
from apertus_image.pins import lockfile, requirements
from apertus_image.resolve.cuda import toolkit_version
from apertus_image.resolve.platform import PYTHON, best_wheel, glibc_problem, glibc_problems

__all__ = ["EXCLUDE_NEWER", "MACHINES", "entry_of", "resolve", "servers"]

MACHINES = ("x86_64", "aarch64")
EXCLUDE_NEWER = "2026-07-15"
"""Nothing newer: vLLM 0.25.1 never saw it (trap 2). The whole day counts, in UTC."""

# uv's own settings that say how it works; those that say what it chooses are ours to say.
UV_SETTINGS = ("UV_CACHE_DIR", "UV_HTTP_TIMEOUT", "UV_NO_CACHE")
WORKERS = 8


def resolve(
    pins: Path,
    progress: Callable[[str, int], Callable[[int], None]] = lambda _label, _n: lambda _done: None,
) -> dict[str, Any]:
    """Resolve `requirements.in` for both machines.

    Args:
        progress: given a label and a number of wheels, gives what each one is told to.

    Raises:
        UserError: uv cannot resolve, no wheel fits, or CUDA is mixed.
    """
    file = pins / "requirements.in"
    indexes = servers()
    sections: dict[str, list[dict[str, Any]]] = {}
    with new_session(ca_bundle() or True, WORKERS) as session:
        for machine in MACHINES:
            versions = _versions(file, machine, indexes)
            told = progress(f"looking up wheels for {machine}", len(versions))

            def entry(item: tuple[str, str], machine=machine, told=told) -> dict[str, Any]:
                found = entry_of(session, indexes, machine, *item)
                told(1)
                return found

            with ThreadPoolExecutor(WORKERS) as pool:
                sections[machine] = list(pool.map(entry, sorted(versions.items())))
    cuda = {machine: toolkit_version(entries) for machine, entries in sections.items()}
    if len(set(cuda.values())) > 1:
        raise UserError("the machines' CUDA toolkits differ", got=cuda,
                        next_step="bound them in nix/pins/requirements.in")
    return {
        "format": lockfile.FORMAT,
        "kind": "wheels",
        "requirements": {file.name: requirements.sha256(file)},
        "python": f"{PYTHON[0]}.{PYTHON[1]}",
        "exclude_newer": EXCLUDE_NEWER,
        "cuda": cuda["x86_64"],
        "differs": _differences(sections),
        **sections,
    }


def _environment(indexes: list[str]) -> dict[str, str]:
    """What uv runs in: nothing of the user's that would change what it chooses.

    Indexes go here and not among the arguments, which every user of the machine can read.
    """
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("UV_") or key in UV_SETTINGS}
    environment |= {
        "TZ": "UTC",  # uv ends the day of --exclude-newer where the machine's clock does
        "UV_DEFAULT_INDEX": indexes[-1],  # asked last
        "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    if indexes[:-1]:
        environment["UV_INDEX"] = " ".join(indexes[:-1])
    if bundle := ca_bundle():
        environment["SSL_CERT_FILE"] = bundle
    return environment


def _versions(file: Path, machine: str, indexes: list[str]) -> dict[str, str]:
    """name -> version, as `uv pip compile` gives them for wheels only."""
    command = [
        str(Path(sys.executable).with_name("uv")), "pip", "compile", str(file), "--quiet",
        "--only-binary", ":all:", "--python", sys.executable,
        "--python-version", f"{PYTHON[0]}.{PYTHON[1]}",
        "--python-platform", f"{machine}-manylinux_2_40", "--exclude-newer", EXCLUDE_NEWER,
        "--no-header", "--no-annotate",
    ]
    result = subprocess.run(command, capture_output=True, text=True, env=_environment(indexes))
    if result.returncode:
        said = [result.stderr.strip(), *glibc_problems(result.stderr, machine)]
        raise UserError("uv cannot resolve the requirements", where=f"{file}, {machine}",
                        got="\n            ".join(said),
                        next_step="mend nix/pins/requirements.in")
    pairs = (line.split(";")[0].split("==") for line in result.stdout.split("\n") if line)
    return {canonicalize_name(name): version.strip() for name, version in pairs}


def servers() -> list[str]:
    """The indexes to lock from: a folder of wheels has no dates and no hashes to lock by.

    Raises:
        UserError: there are none.
    """
    indexes = [url for url in wheel_indexes() if url.startswith(("http://", "https://"))]
    if not indexes:
        raise UserError("no index to resolve wheels from", expected="pip's index-url, or pip",
                        next_step="set APERTUS_PYPI_INDEX to a simple index")
    return indexes


def entry_of(
    session: requests.Session, indexes: list[str], machine: str, name: str, version: str
) -> dict[str, Any]:
    """A lock's entry for the wheel of a version that a machine takes.

    Raises:
        UserError: none fits, or the index does not tell enough of it.
    """
    wanted = canonicalize_version(version)
    files = {
        file.name: file
        for file in project_files(session, indexes, name)
        if file.name.endswith(".whl")
        and _version(file.name) == wanted
    }
    chosen = files[best_wheel(files, machine)]
    if problem := glibc_problem(chosen.name, machine):
        raise UserError("a wheel does not fit the image", where=chosen.name, got=problem)
    if not chosen.sha256 or not chosen.size:
        raise UserError("the index gives no hash or size for a file", where=chosen.url,
                        next_step="use an index that speaks PEP 691 (APERTUS_PYPI_INDEX)")
    return {
        "name": name,
        "version": version,
        "file": chosen.name,
        "sha256": chosen.sha256,
        "size": chosen.size,
        "tags": sorted(str(tag) for tag in parse_wheel_filename(chosen.name)[3]),
        "requires": _requires(session, chosen),
    }


def _version(file: str) -> str | None:
    """The canonical version in a wheel's name; None for names older than the standard."""
    try:
        return canonicalize_version(parse_wheel_filename(file)[1])
    except (InvalidWheelFilename, InvalidVersion):
        return None


def _requires(session: requests.Session, file: IndexFile) -> list[str]:
    """Requires-Dist of the wheel's METADATA, from beside it (PEP 658) or inside it."""
    def ask() -> bytes:
        if not file.metadata_url:
            return wheel_metadata(session, file.url, file.size or 0)
        reply = session.get(file.metadata_url, timeout=TIMEOUT)
        reply.raise_for_status()
        return reply.content

    try:
        metadata = insist(ask, file.metadata_url or file.url)
    except (Failed, BadZipFile) as error:
        raise UserError("a wheel's metadata cannot be had", where=file.name, got=error,
                        next_step="run it again") from error
    needs = parse_email(metadata)[0].get("requires_dist", [])
    # What an extra needs is no need of this image; those asked for are pins of their own.
    return sorted(need for need in needs if not re.search(r"extra\s*==", need))


def _differences(sections: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, str]]:
    """Names whose versions the two machines do not share; `absent` where one lacks it."""
    versions = {m: {e["name"]: e["version"] for e in entries} for m, entries in sections.items()}
    names = sorted({name for section in versions.values() for name in section})
    return {
        name: {m: section.get(name, "absent") for m, section in versions.items()}
        for name in names
        if len({section.get(name) for section in versions.values()}) > 1
    }
