"""Whether an artefact is still what was recorded: everything that can be recomputed is compared.

Three ways, which differ in what is read of the large files:

- quick: nothing but their sizes, and a SquashFS's superblock. The SHA-256 counts as the same where
  a stamp of an earlier full check still fits the file (record.stamp says what that proves).
- once: as quick, but what no stamp fits is read and hashed. For job scripts.
- full: everything is read, whatever the stamps say.

Small documents (the record and what lies beside it, manifests, configs) are always read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.oci.layout import Layout
from apertus_image.record.beside import Beside
from apertus_image.record.check_files import check_made, check_record, check_signature
from apertus_image.record.check_image import Progress, check_layers, check_layout
from apertus_image.record.report import Report
from apertus_image.record.stamp import Stamps, cache_folder
from apertus_image.squashfs import superblock

__all__ = ["MODES", "Verifier"]

MODES = ("quick", "once", "full")
EXPORT = "apertus-image/export/1"


@dataclass(frozen=True)
class Verifier:
    """How artefacts are verified.

    Attributes:
        mode: one of MODES.
        image: one that may be the artefact's own; its layers are then checked too.
        project: a clone that may be of the record's commit, to make SBOM and provenance again.
        signers: allowed signers of records; without it a signature only has to be of the record.
        physical: where a store path lies on this machine.
        progress: given a label and a total of bytes, gives what each step is told to.
    """

    mode: str = "quick"
    image: Image | None = None
    project: Path | None = None
    signers: Path | None = None
    physical: Callable[[str], Path] = Path
    stamps: Stamps = field(default_factory=lambda: Stamps(cache_folder()))
    progress: Progress = lambda _label, _total: lambda _bytes: None

    def verify(self, artefact: str) -> Report:
        """Compare one artefact.

        Args:
            artefact: a `.sqsh` or another file of its release (its record is looked for beside
                it), an image JSON, or an OCI layout's folder, with :NAME or @DIGEST.

        Raises:
            UserError: it is none of these, is not there, cannot be read, or has no record beside
                it.
        """
        report = Report(artefact, self.mode)
        try:
            self._look(report, artefact)
        except OSError as error:
            raise UserError("the artefact cannot be read", where=error.filename or artefact,
                            got=error.strerror, next_step="see whether you may read it and all "
                            "that lies beside it") from error
        return report

    def _look(self, report: Report, artefact: str) -> None:
        for mark in ("", "@", ":"):
            folder, _, wanted = artefact.partition(mark) if mark else (artefact, "", "")
            if Path(folder).is_dir():
                check_layout(report, Layout(Path(folder)), wanted, self.progress, full=self._full)
                return
        file = Path(artefact)
        if not file.exists() and artefact.startswith("/nix/store/"):
            file = self.physical(artefact)
        if not file.exists():
            raise UserError("there is no such artefact", where=artefact, expected="a .sqsh, a "
                            "record, an image JSON, or the folder of an OCI layout")
        files = Beside.of(file)
        if files is None:
            self._image(report, Image.load(file))
        elif files.record.exists():
            self._release(report, files)
        else:
            self._export(report, files)

    @property
    def _full(self) -> bool:
        return self.mode == "full"

    def _image(self, report: Report, image: Image) -> None:
        check_layers(report, image, self.physical, self.progress, full=self._full)

    def _release(self, report: Report, files: Beside) -> None:
        record = check_record(report, files)
        check_signature(report, files, self.signers)
        if record is None:
            report.unchecked("the SquashFS and the image", "the record is not in order")
            return
        recorded = record.data["squashfs"]
        digest = recorded["sha256"].removeprefix("sha256:")
        if files.sqsh.exists():
            self._sqsh(report, files, recorded["size"], digest, recorded["settings"])
        else:
            report.unchecked("the SquashFS", f"it is not beside the record: {files.sqsh}")
        layers = [(each["digest"], each["size"]) for each in record.data["image"]["layers"]]
        image = self._own_image(report, record.data["image"]["config"])
        if image:
            report.compare("layers, as the image has them", layers,
                           [(each.digest, each.size) for each in image.layers], files.record)
            self._image(report, image)
            if self._full and self.project:
                check_made(report, files, record, self.project, image, self.physical)

    def _export(self, report: Report, files: Beside) -> None:
        """An export that is no release: what the exporter wrote beside it."""
        told = _told(files)
        self._sqsh(report, files, told["size"], told["sha256"], told["settings"])
        if image := self._own_image(report, told["image"]):
            report.compare("layers, as the image has them", told["layers"],
                           [each.digest for each in image.layers], files.export)
            self._image(report, image)

    def _own_image(self, report: Report, image_id: str) -> Image | None:
        """The image that an artefact was made of, if it is here."""
        if self.image and self.image.image_id == image_id:
            report.compare("image ID, made again from the image JSON", image_id,
                           self.image.image_id)
            return self.image
        report.unchecked("image ID and layers", "no image JSON with this ID was given (--image): "
                         f"{image_id}")
        return None

    def _sqsh(self, report: Report, files: Beside, size: int, sha256: str,
              settings: dict[str, Any]) -> None:
        """The file itself: from the outside in."""
        file = files.sqsh
        whole = report.compare("SquashFS: size", size, file.stat().st_size, file)
        if found := report.attempt("SquashFS: superblock", lambda: superblock.read(file),
                                   tell=False):
            wanted = superblock.Superblock(0, settings["block"], settings["compressor"], (4, 0),
                                           found.used)
            report.compare("SquashFS: superblock", (wanted, size), (found, found.size), file)
        if files.checksum.exists():
            report.compare("SquashFS: its .sha256", f"{sha256}  {file.name}\n",
                           files.checksum.read_text(errors="replace"), files.checksum)
        what = "SquashFS: SHA-256"
        known = None if self._full else self.stamps.known(file)
        if known is not None:
            report.compare(what, sha256, known, file, "hashed in an earlier full check; neither "
                           "size, times nor inode have changed since")
        elif self.mode == "quick":
            report.unchecked(what, "no full check is known of the file as it is now; "
                             "--once or --full reads it")
        elif not whole and self.mode == "once":
            report.unchecked(what, "its size is wrong already")
        else:
            told = self.progress("hashing the SquashFS", file.stat().st_size)
            if done := report.attempt(what, lambda: self.stamps.hash(file, told), tell=False):
                report.compare(what, sha256, done[0], file, "" if done[1] else
                               "it will be hashed again next time: no stamp can be written")


def _told(files: Beside) -> dict[str, Any]:
    """What the exporter wrote beside its file.

    Raises:
        UserError: there is none, or it is not the exporter's.
    """
    try:
        told = json.loads(files.export.read_bytes())
        if not (told["schema"] == EXPORT and files.sqsh.is_file() and isinstance(told["size"], int)
                and {"image", "layers", "sha256"} <= told.keys()
                and {"block", "compressor"} <= told["settings"].keys()):
            raise ValueError("a SquashFS and what tools/export-sqsh writes beside it")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError("no record is beside the file", where=files.stem.parent,
                        expected=f"{files.record.name}, or {files.export.name} of an export",
                        got=getattr(error, "strerror", None) or error,
                        next_step="copy it with the files beside it") from error
    return told
