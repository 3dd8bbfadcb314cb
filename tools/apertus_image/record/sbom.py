"""The bill of materials of an image, in CycloneDX 1.6: the same bytes whoever makes it (case 47).

Nothing random and no clock: references are package URLs, the serial number is made of the
content, and no time and no tool stand in the metadata.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from uuid import UUID, uuid5

from cyclonedx.model import AttachedText, HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import (
    Component,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.issue import IssueClassification, IssueType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.spdx import is_expression, is_supported_id
from packageurl import PackageURL

from apertus_image.oci.image import Image
from apertus_image.record.inventory import AppliedPatch, Inventory, Package
from apertus_image.record.licence import Licences
from apertus_image.record.record import TITLE, VERSION

__all__ = ["MEDIA_TYPE", "compose", "purl"]

MEDIA_TYPE = "application/vnd.cyclonedx+json"
NAMESPACE = UUID("7d3f1d52-6f0b-5a57-9d0e-2f4f6f0e5c11")  # of this project's serial numbers
UPSTREAM = re.compile(r"[\w.-]+/[\w.-]+#\d+")
Licence = DisjunctiveLicense | LicenseExpression


def compose(image: Image, parts: Inventory) -> bytes:
    """The bill of materials of an image.

    A package whose licence is not known is listed with the licence NOASSERTION and the reason
    (property apertus-image:licence). A patch is a component of its own, with its hash, and in
    the pedigree of the wheel that it changes, with its text.

    Args:
        parts: of the same image.
    """
    labels = image.config.get("Labels") or {}
    itself = Component(
        type=ComponentType.CONTAINER, name=labels.get(TITLE, "image"),
        version=labels.get(VERSION, "0"), bom_ref=image.image_id, hashes=[_hash(image.image_id)],
        properties=[Property(name="apertus-image:architecture", value=image.architecture)])
    packages = [_package(each, parts) for each in (*parts.wheels, *parts.debs)]
    patches = [_patch(each) for each in parts.patches]
    bom = Bom(components=[*packages, *patches])
    bom.metadata.component, bom.metadata.timestamp = itself, None
    bom.register_dependency(itself, [*packages, *patches])
    # Another content has another number; the same content has the same.
    content = "\n".join([image.image_id, *sorted(str(each.bom_ref) for each in bom.components),
                         *sorted(each.sha256 for each in (*parts.wheels, *parts.debs,
                                                           *parts.patches))])
    bom.serial_number = uuid5(NAMESPACE, hashlib.sha256(content.encode()).hexdigest())
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n".encode()


def purl(package: Package, distribution: str = "") -> PackageURL:
    """A package's URL (package-url, types deb and pypi)."""
    if package.kind == "wheel":
        return PackageURL("pypi", None, package.name, package.version)
    qualifiers = {"arch": package.architecture}
    if distribution:
        qualifiers["distro"] = distribution
    return PackageURL("deb", "debian", package.name, package.version, qualifiers)


def _package(package: Package, parts: Inventory) -> Component:
    url = purl(package, parts.distribution)
    mine = [each for each in parts.patches
            if package.kind == "wheel" and each.wheel == package.name]
    return Component(
        type=ComponentType.LIBRARY, name=package.name, version=package.version, purl=url,
        bom_ref=str(url), hashes=[_hash(package.sha256)],
        licenses=_licences(package.licences),
        properties=[Property(name="apertus-image:file", value=package.file),
                    *_unknown(package.licences)],
        pedigree=Pedigree(patches=[_pedigree(each) for each in mine]) if mine else None)


def _patch(patch: AppliedPatch) -> Component:
    url = PackageURL("generic", "apertus-image", patch.name, None,
                     {"checksum": f"sha256:{patch.sha256}"})
    files = [Property(name=f"apertus-image:{when}", value=f"{path} sha256:{hashes[when]}")
             for path, hashes in sorted(patch.meta["files"].items())
             for when in ("before", "after")]
    return Component(
        type=ComponentType.FILE, name=patch.name, version=patch.version,
        purl=url, bom_ref=str(url), hashes=[_hash(patch.sha256)],
        description=f"Patch of {patch.wheel}: {patch.meta['summary']}",
        licenses=_licences(Licences(expression=patch.meta["licence"])), properties=files)


def _pedigree(patch: AppliedPatch) -> Patch:
    upstream = {key: str(value) for key, value in patch.meta["upstream"].items()}
    ours = not any(UPSTREAM.search(value) for value in upstream.values())
    resolves = [IssueType(type=IssueClassification.DEFECT, id=value,
                          description=f"{key}: {value}")
                for key, value in sorted(upstream.items()) if UPSTREAM.fullmatch(value)]
    return Patch(
        type=PatchClassification.UNOFFICIAL if ours else PatchClassification.BACKPORT,
        diff=Diff(text=AttachedText(content=patch.diff, content_type="text/x-diff")),
        resolves=resolves)


def _licences(licences: Licences) -> Iterator[Licence]:
    """CycloneDX takes one expression, or any number of names; it has no word for unknown."""
    expression = licences.expression
    if expression and not is_supported_id(expression) and is_expression(expression):
        yield LicenseExpression(expression)
        return
    for each in licences.names or ([expression] if expression else ["NOASSERTION"]):
        yield (DisjunctiveLicense(id=each) if is_supported_id(each)
               else DisjunctiveLicense(name=each))


def _unknown(licences: Licences) -> Iterator[Property]:
    if licences.unknown:
        yield Property(name="apertus-image:licence", value=f"not known: {licences.unknown}")


def _hash(sha256: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=sha256.removeprefix("sha256:"))
