"""Whether an image can run a checkout: as it is, with an overlay, or only after a rebuild."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from apertus_image.audit.application import differing
from apertus_image.audit.installed import BINARY, PURE, Installed, Package
from apertus_image.audit.kinds import CUDA, UNKNOWN, compiled_by, is_cuda, kind
from apertus_image.audit.markers import applies
from apertus_image.audit.project import Project
from apertus_image.audit.wanted import GIT, LOCAL, URL, Wanted
from apertus_image.errors import UserError

__all__ = ["OVERLAY", "REBUILD", "REUSABLE", "VERDICTS", "Environment", "Reason", "judged"]

REUSABLE, OVERLAY, REBUILD = 0, 10, 20
VERDICTS = {REUSABLE: "reusable", OVERLAY: "overlay", REBUILD: "rebuild"}
ABSENT = "not there"
TOLD = 3


@dataclass(frozen=True)
class Reason:
    """One dependency, or another thing that is needed, and how the image stands to it.

    Attributes:
        what: the package's normalised name, `Python`, or `application`.
        wanted, has: what the checkout asks for, what the image has.
        kind: `pure`, `binary`, `CUDA`, `unknown`; empty for what is no package.
        verdict: one of VERDICTS' keys.
        why: a sentence; empty where the image has what is wanted.
    """

    what: str
    wanted: str
    has: str
    kind: str = ""
    verdict: int = REUSABLE
    why: str = ""


@dataclass(frozen=True)
class Environment:
    """What one environment of a checkout needs of an image.

    Attributes:
        name: its extras and groups, `base` where there are none.
        reasons: of every dependency, those that are met too.
    """

    name: str
    reasons: tuple[Reason, ...]

    @property
    def verdict(self) -> int:
        return max((each.verdict for each in self.reasons), default=REUSABLE)

    def json(self) -> dict[str, Any]:
        """Stable: fields are only added."""
        return {"name": self.name, "verdict": VERDICTS[self.verdict], "reasons": [
            asdict(each) | {"verdict": VERDICTS[each.verdict]} for each in self.reasons]}


def judged(project: Project, image: Installed, extras: Collection[str] = (),
           groups: Collection[str] = ()) -> Environment:
    """What one environment needs.

    Args:
        extras, groups: of the project, normalised; together they are one environment.

    Raises:
        UserError: an extra or group is unknown, a lock is contradictory, or a folder that is
            needed is not checked out.
    """
    project.known(extras, groups)
    markers = image.markers()
    wanted = project.wanted(extras, groups, markers)
    allowed: dict[str, SpecifierSet] = {}
    for each in project.declared(extras, groups, markers):
        name = canonicalize_name(each.name)
        allowed[name] = allowed.get(name, SpecifierSet()) & each.specifier
    reasons = [*_python(project, image), *_application(project, image)]
    for each in wanted:
        found = _dependency(each, project, image, allowed.get(each.name))
        reasons.append(found)
        if found.verdict == OVERLAY and each.version and each.source != LOCAL:
            reasons += _conflicts(each, image, markers)
    if project.lock is None:
        reasons += _extras_of(project, image, extras, groups, markers)
    name = ", ".join([*extras, *(f"group {group}" for group in groups)]) or "base"
    return Environment(name, tuple(reasons))


def _python(project: Project, image: Installed) -> Iterator[Reason]:
    for asked in {project.requires_python,
                  project.lock.requires_python if project.lock else SpecifierSet()}:
        if asked:
            fits = asked.contains(image.python, prereleases=True)
            yield Reason("Python", str(asked), image.python, "", REUSABLE if fits else REBUILD,
                         "" if fits else "the image's Python is another")
    if (pinned := project.pinned_python) and pinned[0].isdigit():
        fits = f"{image.python}.".startswith(f"{pinned}.")
        yield Reason("Python", f"{pinned}, by .python-version", image.python, "",
                     REUSABLE if fits else REBUILD, "" if fits else "the image's Python is another")


def _application(project: Project, image: Installed) -> Iterator[Reason]:
    yield _own(project.name, ".", project)
    if image.application is None:
        return
    found = differing(project.folder, image.application)
    more = f" and {len(found) - TOLD} more" if len(found) > TOLD else ""
    yield Reason(
        "application", "the checkout's files", f"{len(image.application.entries)} files at "
        f"{image.application.at}", "", OVERLAY if found else REUSABLE,
        f"{len(found)} files differ: {', '.join(found[:TOLD])}{more}" if found else "")


def _own(name: str, place: str, project: Project) -> Reason:
    """A folder that the checkout brings itself."""
    if place == "workspace":
        return Reason(name, "a member of the workspace", "", UNKNOWN, OVERLAY,
                      "without uv.lock its folder is not known")
    folder = project.folder / place
    wanted = f"folder {place}"
    if not (folder / "pyproject.toml").is_file() and not (folder / "setup.py").is_file():
        inside = [each.path for each in project.submodules
                  if f"{os.path.normpath(place)}/".startswith(f"{each.path}/")]
        raise UserError(
            "a folder that the project is made of is not there", where=folder,
            expected=f"{name}, {f'in the submodule {inside[0]}' if inside else 'with its build'}",
            next_step=f"git -C {project.folder} submodule update --init --recursive")
    if why := compiled_by(folder):
        return Reason(name, wanted, "", BINARY, REBUILD, f"it seems to be compiled: {why}")
    if os.path.normpath(place).split("/")[0] == ".." or os.path.isabs(place):  # noqa: PTH117
        return Reason(name, wanted, "", PURE, OVERLAY,
                      "it lies outside of the checkout and has to be brought along")
    return Reason(name, wanted, "the checkout's own", PURE)


def _dependency(wanted: Wanted, project: Project, image: Installed, allowed: SpecifierSet | None
                ) -> Reason:
    if wanted.source == LOCAL:
        return _own(wanted.name, wanted.place, project)
    have = image.packages.get(wanted.name)
    kinds = {kind(wanted, image), *([CUDA if is_cuda(have.name) else have.kind] if have else ())}
    if have and UNKNOWN in kinds:
        kinds.discard(UNKNOWN)  # what replaces a package is taken to be of its kind
    one = next(each for each in (CUDA, BINARY, UNKNOWN, PURE) if each in kinds)
    why = _difference(wanted, have, image)
    if not why:
        return Reason(wanted.name, str(wanted), str(have.version), one)
    if have and wanted.version and allowed is not None and allowed.contains(
            have.version, prereleases=True):
        why += f"; pyproject.toml would allow it ({allowed or 'any version'})"
    verdict = OVERLAY if one == PURE else REBUILD
    if one == UNKNOWN:
        why += "; it has to be built, and nothing says of what" if wanted.built or (
            wanted.source == GIT) else "; without uv.lock nothing says what it is made of"
    has = str(have.version) if have else ABSENT
    return Reason(wanted.name, str(wanted), has, one, verdict, why)


def _difference(wanted: Wanted, have: Package | None, image: Installed) -> str:
    """Why the image's package is not the one that is wanted; empty if it is."""
    if have is None:
        return "the image does not have it"
    if wanted.source in (GIT, URL):
        return f"it comes from a {wanted.source} address, the image's from an index"
    if not wanted.version:
        fits = SpecifierSet(wanted.specifier).contains(have.version, prereleases=True)
        return "" if fits else "the image's version is not allowed"
    try:
        version = Version(wanted.version)
    except InvalidVersion as error:
        raise UserError("a version in uv.lock is malformed", where=wanted.name,
                        got=wanted.version) from error
    if version == have.version or (
            version.public == have.version.public and _same_build(version, have.version, image)):
        return ""
    return "the image has another version"


def _same_build(one: Version, other: Version, image: Installed) -> bool:
    """Whether local labels mean one thing: no label is the vendor's own build for its CUDA."""
    labels = {label for label in (one.local, other.local) if label}
    runtime = image.packages.get("nvidia-cuda-runtime")
    return runtime is not None and labels == {
        f"cu{runtime.version.major}{runtime.version.minor}"}


def _conflicts(wanted: Wanted, image: Installed, markers: Mapping[str, str]) -> Iterator[Reason]:
    """Packages of the image that the wanted version would break."""
    for package in image.packages.values():
        for each in package.requires:
            if canonicalize_name(each.name) != wanted.name or not applies(
                    str(each.marker) if each.marker else None, markers, ()):
                continue
            if not each.specifier.contains(wanted.version, prereleases=True):
                yield Reason(wanted.name, str(wanted), str(image.packages[wanted.name].version)
                             if wanted.name in image.packages else ABSENT, PURE, REBUILD,
                             f"the image's {package.name} {package.version} needs "
                             f"{each.name}{each.specifier}")


def _extras_of(project: Project, image: Installed, extras: Collection[str],
               groups: Collection[str], markers: Mapping[str, str]) -> Iterator[Reason]:
    """What `ray[default]` needs beside ray: without a lock, the package's own metadata says."""
    for asked in project.declared(extras, groups, markers):
        have = image.packages.get(canonicalize_name(asked.name))
        for each in have.requires if have and asked.extras else ():
            marker = str(each.marker) if each.marker else None
            if applies(marker, markers, ()) or not applies(
                    marker, markers, {canonicalize_name(extra) for extra in asked.extras}):
                continue
            yield _dependency(Wanted(canonicalize_name(each.name), specifier=str(each.specifier)),
                              project, image, None)
