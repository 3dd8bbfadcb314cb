"""What can be audited: a revision, a flake.lock, a record, an image, a SquashFS."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.audit.artefacts import Layer
from apertus_image.audit.predict import layer_name
from apertus_image.audit.report import DEPENDENCY, OVERLAY
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.oci.layout import Layout
from apertus_image.record.record import Record
from apertus_image.record.source import git
from apertus_image.squashfs.source import LayoutImage, Source, StoredImage

__all__ = ["FORMS", "Subject", "named", "of", "revision"]

LOCK = "flake.lock"
OVERLAYS = ("patches", "source")
FORMS = ("a revision or folder of this project, a flake.lock, a record, an image JSON, the folder "
         "of an OCI layout (:NAME or @DIGEST), or a .sqsh")


@dataclass(frozen=True)
class Subject:
    """One side of an audit; what it does not have is None.

    Attributes:
        label: as the user named it.
        kind: revision, folder, lock, record, image, layout or sqsh.
        project: root of a revision's files.
        lock: a flake.lock.
        image_id: `sha256:…`.
        layers: lowest first.
        config: the image's, with `architecture`.
        source: whose layers' entries can be read.
    """

    label: str
    kind: str
    project: Path | None = None
    lock: Path | None = None
    record: Record | None = None
    image_id: str = ""
    layers: list[Layer] | None = None
    config: dict[str, Any] | None = None
    source: Source | None = None
    sqsh: Path | None = None

    @property
    def named(self) -> dict[str, str]:
        return {"name": self.label, "kind": self.kind}


def of(text: str, clone: Path, scratch: Path,
       physical: Callable[[str], Path] = Path) -> Subject:
    """What a user's word names; a file or folder before a revision of that name.

    Args:
        clone: whose revisions are meant.
        scratch: an empty folder, for a revision's files.

    Raises:
        UserError: it is nothing that is known, or cannot be read.
    """
    for mark in ("", "@", ":"):
        folder, _, wanted = text.partition(mark) if mark else (text, "", "")
        if (Path(folder) / "oci-layout").exists():
            return _layout(text, LayoutImage(Layout(Path(folder)), wanted))
    file = Path(text)
    if not file.exists() and text.startswith("/nix/store/"):
        file = physical(text)
    if file.is_dir() and (file / "flake.nix").is_file():
        return Subject(text, "folder", file.resolve(), file / LOCK)
    if file.is_file():
        return _file(text, file, physical)
    if file.is_dir():
        raise UserError("this folder cannot be audited", where=text, expected=FORMS)
    return revision(text, clone, scratch)


def revision(text: str, clone: Path, scratch: Path) -> Subject:
    """A revision of the project, its files in `scratch`; neither index nor worktree is touched.

    Raises:
        UserError: there is no such revision, or it is not of this project.
    """
    commit = "" if text.startswith("-") else git(
        clone, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}",
        check=False).strip()
    if not commit:
        raise UserError("there is nothing of this name", where=text, expected=FORMS,
                        next_step=f"git -C {clone} log --oneline lists revisions")
    _extract(clone, commit, scratch)
    if not (scratch / "flake.nix").is_file():
        raise UserError("this revision has no flake", where=f"{text} ({commit[:12]})",
                        expected="a revision of this project")
    return Subject(text, "revision", scratch, scratch / LOCK)


def _extract(clone: Path, commit: str, folder: Path) -> None:
    """The commit's files, by git's own objects.

    `git archive` writes no index; attributes of the revision itself do not count.
    """
    packed = folder.with_name(f"{folder.name}.tar")
    try:
        git(clone, "archive", "--format=tar", f"--output={packed}", commit)
        with tarfile.open(packed) as tar:
            # Debian 12's Python has no filters yet; what git writes needs none.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(folder)
    finally:
        packed.unlink(missing_ok=True)


def _file(text: str, file: Path, physical: Callable[[str], Path]) -> Subject:
    with file.open("rb") as data:
        start = data.read(4)
    if start == b"hsqs" or file.suffix == ".sqsh":
        return Subject(text, "sqsh", sqsh=file)
    try:
        fields = json.loads(file.read_bytes())
        if not isinstance(fields, dict):
            raise ValueError("no object")
    except (ValueError, RecursionError) as error:
        raise UserError("this file cannot be audited", where=text, expected=FORMS, got=error,
                        ) from error
    if "nodes" in fields:
        return Subject(text, "lock", lock=file)
    if str(fields.get("schema", "")).startswith("apertus-image/record/"):
        return _record(text, Record.parse(file.read_bytes(), file))
    return _image(text, Image.load(file), physical)


def _record(text: str, record: Record) -> Subject:
    image, application = record.data["image"], record.data["application"]
    count, upper = len(image["layers"]), 1 if application is None else 2
    # The overlay is the uppermost layer, but for the application's (nix/image.nix).
    layers = [Layer("", each["digest"], each["size"],
                    OVERLAY if number >= count - upper else DEPENDENCY)
              for number, each in enumerate(image["layers"])]
    return Subject(text, "record", record=record, image_id=image["config"], layers=layers)


def _image(text: str, image: Image, physical: Callable[[str], Path]) -> Subject:
    return Subject(
        text, "image", image_id=image.image_id,
        layers=[named(layer_name(each.history), each.digest, each.size) for each in image.layers],
        config=image.config | {"architecture": image.architecture, "created": image.created},
        source=StoredImage(image, physical))


def _layout(text: str, source: LayoutImage) -> Subject:
    names = [layer_name(each) for each in source.history]
    names += [""] * (len(source.layers) - len(names))
    sizes = source.sizes
    layers = [named(name, digest, size)
              for name, digest, size in zip(names, source.layers, sizes, strict=False)]
    return Subject(text, "layout", image_id=source.image_id, layers=layers,
                   config=dict(source.config) | {"architecture": source.architecture},
                   source=source)


def named(name: str, digest: str, size: int) -> Layer:
    """A layer whose name says what part of the image it is."""
    return Layer(name, digest, size, OVERLAY if name in OVERLAYS else DEPENDENCY)
