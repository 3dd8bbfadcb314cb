"""What Python a finished image holds: version, machine, packages, the application's own files.

Read from what the image says of itself: pyvenv.cfg, dist-info (PEP 376, PEP 427), dpkg's database
and the builders' manifests; from its trees in the store, or out of a `.sqsh`.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_tag
from packaging.version import InvalidVersion, Version

from apertus_image.application.build import ORIGIN
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.tree import manifest
from apertus_image.tree.machine import Machine, machine

__all__ = ["Application", "Installed", "Package", "of_export", "of_image", "of_trees"]

CONFIG = "opt/*/pyvenv.cfg"
DIST_INFO = "opt/*/lib/*/site-packages/*.dist-info"
STATUS = "var/lib/dpkg/status"
MANIFEST = "usr/share/apertus/manifests/application-source"
PURE, BINARY = "pure", "binary"


@dataclass(frozen=True)
class Package:
    """One installed distribution.

    Attributes:
        name: normalised (PEP 503).
        kind: `pure` where its wheel runs on any machine, else `binary`.
        requires: Requires-Dist, as parsed.
    """

    name: str
    version: Version
    kind: str
    requires: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class Application:
    """A user's code that is in the image.

    Attributes:
        at: its folder in the image.
        entries: files and links, by their path below that.
    """

    at: str
    entries: Mapping[str, manifest.Entry]


@dataclass(frozen=True)
class Installed:
    """The image's one Python environment.

    Attributes:
        python: full version, `3.13.5`.
        prefix: where the environment lies in the image.
        packages: by normalised name.
        application: None where the image has none.
    """

    python: str
    machine: Machine
    prefix: str
    packages: Mapping[str, Package] = field(default_factory=dict)
    application: Application | None = None

    def markers(self) -> dict[str, str]:
        """The environment that markers are evaluated in (PEP 508), the image's and not this one's.

        The kernel's release and version are the node's, so they are empty.
        """
        return {
            "implementation_name": "cpython", "implementation_version": self.python,
            "os_name": "posix", "platform_machine": self.machine.name, "platform_release": "",
            "platform_system": "Linux", "platform_version": "",
            "platform_python_implementation": "CPython", "python_full_version": self.python,
            "python_version": ".".join(self.python.split(".")[:2]), "sys_platform": "linux",
        }


def of_image(image: Image, physical: Callable[[str], Path] = Path) -> Installed:
    """What an image of the store holds.

    Raises:
        UserError: a store path is gone, or there is not one Python environment.
    """
    trees = [physical(path.path) for layer in image.layers for path in layer.paths]
    if gone := [tree for tree in trees if not tree.exists()]:
        raise UserError("a store path of the image is gone", where=gone[0],
                        next_step="tools/build brings it back")
    return of_trees(trees, image.architecture)


def of_export(file: Path, programs: Path) -> Installed:
    """What a `.sqsh` holds; only the few small files that tell are unpacked.

    Args:
        programs: folder of the pinned unsquashfs.

    Raises:
        UserError: it cannot be read, or there is not one Python environment.
    """
    with tempfile.TemporaryDirectory(prefix="apertus-compat-") as scratch:
        out = Path(scratch, "tree")
        wanted = [CONFIG, *(f"{DIST_INFO}/{name}" for name in ("METADATA", "WHEEL")), STATUS,
                  MANIFEST]
        ran = subprocess.run(
            [str(programs / "unsquashfs"), "-quiet", "-no-progress", "-no-xattrs", "-dest",
             str(out), str(file), *wanted], capture_output=True, text=True, env={"LC_ALL": "C"})
        if ran.returncode:
            raise UserError("unsquashfs cannot read the file", where=file,
                            got=ran.stderr.strip()[-2000:], next_step="tools/verify FILE says more")
        return of_trees([out])


def of_trees(trees: Iterable[Path], architecture: str = "") -> Installed:
    """What trees hold together.

    Args:
        architecture: in any world's words; empty to take what dpkg's database says.

    Raises:
        UserError: there is not one Python environment, or nothing says which machine it is for.
    """
    trees = list(trees)
    configs = [file for tree in trees for file in tree.glob(CONFIG)]
    if len(configs) != 1:
        raise UserError("the image has not one Python environment", where=f"/{CONFIG}",
                        expected="one", got=len(configs),
                        next_step="name an image of this project")
    packages = list(_debs(trees))
    architecture = architecture or next(
        (each["Architecture"] for each in packages if each["Package"] == "libc6"), "")
    if not architecture:
        raise UserError("nothing in the image says which machine it is for", where=f"/{STATUS}",
                        expected="the package libc6", next_step="name the image JSON instead")
    found = (_package(folder) for tree in trees for folder in tree.glob(DIST_INFO))
    return Installed(
        _python(configs[0], packages), machine(architecture), f"/opt/{configs[0].parent.name}",
        {each.name: each for each in found if each}, _application(trees))


def _debs(trees: list[Path]) -> Iterator[Message]:
    for tree in trees:
        if (tree / STATUS).is_file():
            for paragraph in (tree / STATUS).read_text(encoding="utf-8").split("\n\n"):
                fields = HeaderParser().parsestr(paragraph.strip("\n"))
                if fields["Package"]:
                    yield fields


def _python(config: Path, packages: list[Message]) -> str:
    """The full version where Debian's package says it: pyvenv.cfg has major and minor alone."""
    found = re.search(r"(?m)^version(?:_info)? *= *(\d+\.\d+)(\.\d+)?", config.read_text())
    if not found:
        raise UserError("the image's pyvenv.cfg names no version", where=config.name,
                        expected="version = 3.13")
    if found[2]:
        return found[1] + found[2]
    debian = next((each["Version"] for each in packages
                   if each["Package"] == f"python{found[1]}-minimal"), "")
    upstream = re.match(r"\d+\.\d+\.\d+", debian)
    return upstream[0] if upstream else f"{found[1]}.0"


def _package(folder: Path) -> Package | None:
    """None where it is an overlay's part of a dist-info folder."""
    if not (folder / "METADATA").is_file():
        return None
    fields = _fields(folder / "METADATA")
    try:
        version = Version(fields["Version"] or "")
    except InvalidVersion as error:
        raise UserError("a package of the image has no version", where=folder.name,
                        got=fields["Version"]) from error
    requires = []
    for text in fields.get_all("Requires-Dist") or ():
        with contextlib.suppress(InvalidRequirement):  # what pip ignores too, in old metadata
            requires.append(Requirement(text))
    return Package(canonicalize_name(fields["Name"]), version, _kind(folder / "WHEEL"),
                   tuple(requires))


def _kind(wheel: Path) -> str:
    if not wheel.is_file():
        return BINARY
    fields = _fields(wheel)
    tags = [tag for text in fields.get_all("Tag") or () for tag in parse_tag(text)]
    pure = fields["Root-Is-Purelib"] == "true" and all(tag.platform == "any" for tag in tags)
    return PURE if pure else BINARY


def _fields(file: Path) -> Message:
    return HeaderParser().parsestr(file.read_text(encoding="utf-8", errors="replace"))


def _application(trees: list[Path]) -> Application | None:
    for tree in trees:
        if not (tree / MANIFEST).is_file():
            continue
        entries = [each for each in manifest.read(tree / MANIFEST)
                   if each.origin == ORIGIN and each.type != "dir"]
        at = posixpath.commonpath([posixpath.dirname(each.path) for each in entries])
        return Application(at, {posixpath.relpath(each.path, at): each for each in entries})
    return None
