"""How a release came about: SLSA provenance 1.0 in an in-toto statement 1 (slsa.dev, in-toto.io).

Its subjects are the manifests and the SquashFS. Like the record it knows no clock and no machine;
which maker and tools were used, where and when, is in the attestation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from apertus_image.errors import UserError
from apertus_image.record.document import canonical
from apertus_image.record.inventory import Inventory
from apertus_image.record.record import Record
from apertus_image.record.sbom import purl

__all__ = ["MEDIA_TYPE", "compose", "subjects"]

MEDIA_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:apertus-image:build:nix:1"
BUILDER = "urn:apertus-image:builder:release:1"


def compose(record: Record, flake_lock: bytes, parts: Inventory) -> bytes:
    """The statement, in the form of record.document.

    Args:
        flake_lock: the file's bytes, which the record names.
        parts: what the image is made of.

    Raises:
        UserError: flake.lock is not the record's.
    """
    data = record.data
    found = f"sha256:{hashlib.sha256(flake_lock).hexdigest()}"
    if found != data["pins"]["flake_lock"]:
        raise UserError("flake.lock is not the one that the record names", got=found,
                        expected=data["pins"]["flake_lock"], next_step="git checkout flake.lock")
    application = data["application"]
    dependencies = [*_sources("source", data["source"]), *_inputs(json.loads(flake_lock)),
                    *_pins(record), *_packages(parts)]
    if application:
        dependencies += _sources("application", application)
    return canonical({
        "_type": STATEMENT,
        "subject": subjects(record),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "image": data["image"]["name"], "architecture": data["image"]["architecture"],
                    "application": application and application["path"]},
                "internalParameters": {
                    "squashfs": {key: data["squashfs"][key] for key in ("format", "settings")}},
                "resolvedDependencies": sorted(
                    dependencies, key=lambda each: (each["name"], str(each["digest"]))),
            },
            "runDetails": {
                "builder": {"id": BUILDER},
                "byproducts": [{"name": f"{record.name}.record.json",
                                "digest": _digest(record.digest)}],
            },
        },
    })


def subjects(record: Record) -> list[dict[str, Any]]:
    """What the statement is about."""
    image, squashfs = record.data["image"], record.data["squashfs"]
    manifests = [{"name": f"{image['name']}, {form} manifest", "digest": _digest(digest)}
                 for form, digest in sorted(image["manifests"].items())]
    return [*manifests, {"name": squashfs["file"], "digest": _digest(squashfs["sha256"])}]


def _sources(name: str, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"name": name, "digest": {"gitCommit": data["commit"]}}
    for path, commit in data["submodules"].items():
        yield {"name": f"{name}/{path}", "digest": {"gitCommit": commit}}


def _inputs(lock: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Flake inputs; each by its revision and the hash of its tree."""
    for name, node in lock["nodes"].items():
        locked = node.get("locked") or {}
        if "rev" in locked:
            yield {"name": f"flake input {name}", "digest": {"gitCommit": locked["rev"]},
                   "annotations": {key: locked[key] for key in ("narHash", "owner", "repo", "type")
                                   if key in locked}}


def _pins(record: Record) -> Iterator[dict[str, Any]]:
    pins = record.data["pins"]
    for path, digest in {"flake.lock": pins["flake_lock"], **pins["files"]}.items():
        yield {"name": path, "digest": _digest(digest)}


def _packages(parts: Inventory) -> Iterator[dict[str, Any]]:
    for each in (*parts.wheels, *parts.debs):
        yield {"name": each.file, "uri": str(purl(each, parts.distribution)),
               "digest": {"sha256": each.sha256}}


def _digest(digest: str) -> dict[str, str]:
    kind, _, value = digest.partition(":")
    return {kind: value}
