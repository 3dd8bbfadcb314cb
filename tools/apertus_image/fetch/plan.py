"""What an image needs from outside, and where each input belongs in the store."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from apertus_image.errors import UserError
from apertus_image.fetch import bootstrap
from apertus_image.fetch.download import Pin
from apertus_image.pins import lockfile
from apertus_image.pins.names import store_name
from apertus_image.store.paths import fixed_output_path
from apertus_image.tree.machine import MACHINES, Machine

__all__ = [
    "IMAGES", "Bootstrap", "Input", "debs", "inputs", "inputs_of", "machine_of", "wheels",
]

IMAGES = ("apertus-image", "smoke-image")


@dataclass(frozen=True)
class Input:
    """One pinned file.

    Attributes:
        kind: `wheel` or `deb`.
        name: the pin's name.
        version: the pin's version.
        pin: what the file must be.
        pool: path below a Debian mirror, empty for wheels.
        lock_date: date of the lock's point release, for snapshot archives; debs only.
        store_path: where it belongs.
    """

    kind: str
    name: str
    version: str
    pin: Pin
    pool: str
    lock_date: str
    store_path: str


@dataclass(frozen=True)
class Bootstrap:
    """The bootstrap tree of a build machine: its packages, its hash, its store path."""

    debs: tuple[Input, ...]
    sha256: str
    system: str
    store_path: str


def machine_of(name: str, native: Machine) -> tuple[str, Machine]:
    """Split an output's name: (image, machine).

    Raises:
        UserError: no such image.
    """
    for image in IMAGES:
        if name == image:
            return image, native
        for each in MACHINES.values():
            if name == f"{image}-{each.name}":
                return image, each
    known = [n for image in IMAGES for n in (image, *(f"{image}-{m}" for m in MACHINES))]
    raise UserError("unknown image", expected=", ".join(known), got=name,
                    next_step="give one of these names")


def inputs(
    pins: Path, names: Iterable[str], native: Machine, *, go: bool = False
) -> tuple[list[Input], Bootstrap]:
    """All inputs of the named images, and the bootstrap of this build machine.

    Args:
        pins: folder of the locks.
        names: outputs of the flake.
        native: the build machine.
        go: whether nix2container is to be built, which needs Go.

    Raises:
        UserError: a lock is missing, malformed or older than its requirements.
    """
    found: dict[str, Input] = {}
    for world in ("toolchain", *(["toolchain-go"] if go else [])):
        for each in debs(pins / f"{world}.json", native.debian):
            found[each.store_path] = each
    for name in names:
        image, machine = machine_of(name, native)
        chosen = _smoke(pins) if image == "smoke-image" else None
        for each in (*debs(pins / "userland.json", machine.debian),
                     *wheels(pins / "wheels.json", machine.name)):
            if chosen is None or each.name in chosen[each.kind]:
                found[each.store_path] = each
    return list(found.values()), _bootstrap(pins / "bootstrap.json", native)


def _smoke(pins: Path) -> dict[str, set[str]]:
    smoke = json.loads((pins / "smoke.json").read_text())
    return {"wheel": set(smoke["wheels"]), "deb": set(smoke["debian"])}


def wheels(file: Path, machine: str) -> list[Input]:
    """The wheels of a lock for a machine."""
    return [
        Input("wheel", entry["name"], entry["version"],
              Pin(entry["file"], entry["sha256"], entry["size"]), "", "",
              fixed_output_path(store_name(entry["file"]), entry["sha256"]))
        for entry in lockfile.load(file)[machine]
    ]


def debs(file: Path, architecture: str) -> list[Input]:
    """The Debian packages of a lock for an architecture."""
    return inputs_of(lockfile.load(file), architecture)


def inputs_of(lock: dict, architecture: str) -> list[Input]:
    """The Debian packages of a lock that is in memory."""
    result = []
    for entry in lock[architecture]:
        name = PurePosixPath(entry["path"]).name
        result.append(Input(
            "deb", entry["name"], entry["version"], Pin(name, entry["sha256"], entry["size"]),
            # A package pinned anew since has a date of its own (tools/lock debian --gone).
            entry["path"], entry.get("date", lock["date"]),
            fixed_output_path(store_name(name), entry["sha256"]),
        ))
    return result


def _bootstrap(file: Path, native: Machine) -> Bootstrap:
    digest = lockfile.load(file)["tree"][native.name]
    path = fixed_output_path(f"{bootstrap.NAME}-{native.system}", digest, recursive=True)
    return Bootstrap(tuple(debs(file, native.debian)), digest, native.system, path)
