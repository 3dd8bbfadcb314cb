"""What an image is made of: the wheels and packages its trees hold, each found in the locks.

The trees say what is there (dpkg's database, dist-info folders, the patches in the manifests), the
locks say what it was made from. What is there and in no lock is an error, never left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from apertus_image.errors import UserError, raise_all
from apertus_image.oci.image import Image
from apertus_image.pins import lockfile
from apertus_image.record import licence
from apertus_image.record.licence import Licences
from apertus_image.tree import manifest
from apertus_image.tree.machine import machine

__all__ = ["AppliedPatch", "Inventory", "Package", "inventory"]

STATUS = "var/lib/dpkg/status"
DIST_INFO = "opt/*/lib/*/site-packages/*.dist-info/METADATA"
MANIFESTS = "usr/share/apertus/manifests"


@dataclass(frozen=True)
class Package:
    """A wheel or a Debian package of an image.

    Attributes:
        kind: `wheel` or `deb`.
        name, version: as the lock spells them.
        architecture: Debian's name, empty for wheels.
        file: the pinned file's name.
        sha256: hex, of that file.
    """

    kind: str
    name: str
    version: str
    architecture: str
    file: str
    sha256: str
    licences: Licences


@dataclass(frozen=True)
class AppliedPatch:
    """A patch that an image holds.

    Attributes:
        name: its folder's.
        wheel, version: what it is for.
        diff: text of patch.diff.
        sha256: hex, of patch.diff.
        meta: patch.json: `upstream`, `licence`, `summary`, `files`.
    """

    name: str
    wheel: str
    version: str
    diff: str
    sha256: str
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class Inventory:
    """All that an image is made of, sorted by name.

    Attributes:
        distribution: `debian-13`, empty where the image does not say.
    """

    wheels: tuple[Package, ...]
    debs: tuple[Package, ...]
    patches: tuple[AppliedPatch, ...]
    distribution: str = ""


def inventory(image: Image, project: Path, physical: Callable[[str], Path] = Path) -> Inventory:
    """What an image is made of.

    Args:
        project: with nix/pins and nix/patches, which the image was made from.
        physical: where a store path lies on this machine.

    Raises:
        UserError: a store path is gone, a lock is malformed, or the image holds what is in no
            lock and no patch's folder; all are named.
    """
    trees = [physical(path.path) for layer in image.layers for path in layer.paths]
    if gone := [tree for tree in trees if not tree.exists()]:
        raise UserError("a store path of the image is gone", where=gone[0],
                        next_step="tools/build brings it back")
    target, pins = machine(image.architecture), project / "nix/pins"
    problems: list[UserError] = []
    debs = tuple(_matched("deb", _installed_debs(trees), pins / "userland.json", target.debian,
                          problems))
    wheels = tuple(_matched("wheel", _installed_wheels(trees), pins / "wheels.json", target.name,
                            problems))
    patches = tuple(_patches(trees, project / "nix/patches", wheels, problems))
    raise_all(problems, "the image is not made from these locks: {n} faults")
    return Inventory(wheels, debs, patches, _distribution(trees))


Found = tuple[str, str, Licences]


def _installed_debs(trees: list[Path]) -> Iterator[Found]:
    """(name, version, licences) of dpkg's database."""
    for tree in trees:
        if (tree / STATUS).is_file():
            for paragraph in (tree / STATUS).read_text(encoding="utf-8").split("\n\n"):
                fields = HeaderParser().parsestr(paragraph.strip("\n"))
                if name := fields.get("Package"):
                    yield name, fields["Version"], licence.of_copyright(
                        tree / f"usr/share/doc/{name}/copyright")


def _installed_wheels(trees: list[Path]) -> Iterator[Found]:
    for tree in trees:
        for file in tree.glob(DIST_INFO):
            fields = HeaderParser().parsestr(file.read_text(encoding="utf-8", errors="replace"))
            yield canonicalize_name(fields["Name"]), fields["Version"], licence.of_metadata(file)


def _matched(kind: str, installed: Iterator[Found], lock: Path, machine_name: str,
             problems: list[UserError]) -> Iterator[Package]:
    """Each with its entry of the lock."""
    entries: dict[str, Mapping[str, Any]] | None = None
    for name, version, licences in sorted(installed, key=lambda each: each[0]):
        if entries is None:  # an image without any needs no lock
            entries = {each["name"]: each for each in lockfile.load(lock)[machine_name]}
        entry = entries.get(name)
        if entry is None or entry["version"] != version:
            problems.append(UserError(
                f"the image holds a {kind} that the lock does not", where=f"{lock.name}, {name}",
                expected=version, got=entry["version"] if entry else "no such entry",
                next_step="use the clone of the commit that the image was made from"))
            continue
        file = entry["file"] if kind == "wheel" else entry["path"].rpartition("/")[2]
        yield Package(kind, name, version, entry.get("architecture", ""), file, entry["sha256"],
                      licences)


def _patches(trees: list[Path], folder: Path, wheels: tuple[Package, ...],
             problems: list[UserError]) -> Iterator[AppliedPatch]:
    """Those that a tree's manifest names, with what proves that they are these."""
    applied: dict[str, dict[str, str]] = {}  # patch -> file -> SHA-256 that it must have left
    for tree in trees:
        for entry in _patched(tree):
            names = entry.origin.removeprefix("patch:").split("+")
            for name in names:
                applied.setdefault(name, {})
            applied[names[-1]][entry.path] = entry.sha256 or ""
    known = {each.name: each for each in _folders(folder)
             if (each.wheel, each.version) in {(one.name, one.version) for one in wheels}}
    for name, files in sorted(applied.items()):
        patch = known.get(name)
        if patch is None:
            problems.append(UserError("the image holds a patch that is not here",
                                      where=folder, expected=name, got=", ".join(known) or "none",
                                      next_step="use the clone of the image's commit"))
            continue
        for path, sha256 in files.items():
            wanted = next((hashes["after"] for file, hashes in patch.meta["files"].items()
                           if path.endswith(f"/site-packages/{file}")), sha256)
            if wanted != sha256:
                problems.append(UserError("the image's patch is another than this one",
                                          where=f"{name}, {path}", expected=f"sha256 {wanted}",
                                          got=f"sha256 {sha256}",
                                          next_step="use the clone of the image's commit"))
        yield patch


def _patched(tree: Path) -> Iterator[manifest.Entry]:
    for file in sorted((tree / MANIFESTS).glob("patches-*")):
        yield from (entry for entry in manifest.read(file) if entry.origin.startswith("patch:"))


def _folders(folder: Path) -> Iterator[AppliedPatch]:
    for meta in sorted(folder.glob("*/*/patch.json")):
        data = json.loads(meta.read_bytes())
        diff = meta.with_name("patch.diff").read_bytes()
        yield AppliedPatch(data["name"], data["wheel"], data["version"], diff.decode(),
                           hashlib.sha256(diff).hexdigest(), data)


def _distribution(trees: list[Path]) -> str:
    for tree in trees:
        if (file := tree / "usr/lib/os-release").is_file():
            fields = dict(line.split("=", 1) for line in file.read_text().splitlines()
                          if "=" in line)
            return "-".join(fields[key].strip('"') for key in ("ID", "VERSION_ID")
                            if key in fields)
    return ""
