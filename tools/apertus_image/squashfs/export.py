"""An image as one SquashFS file: written beside its final name, read back, then named."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.squashfs.check import check, check_entries
from apertus_image.squashfs.enroot import generated
from apertus_image.squashfs.final import name_it, remove_left, sidecars, workplace
from apertus_image.squashfs.node import Node
from apertus_image.squashfs.proof import StoredLayer
from apertus_image.squashfs.source import Source
from apertus_image.squashfs.tree import merge_layers
from apertus_image.squashfs.write import FORMAT_VERSION, Settings, write

__all__ = ["CHECKS", "Exported", "Exporter", "default_name", "folder_of"]

CHECKS = ("full", "quick")
SCHEMA = "apertus-image/export/1"
MADE = ("schema", "format", "image", "layers", "architecture", "settings")
"""The record's fields that say which bits an export has to have."""


@dataclass(frozen=True)
class Exported:
    """What an export gave.

    Attributes:
        path: the `.sqsh`.
        record: what `PATH.json` says.
        written: False where an identical file was there already.
    """

    path: Path
    record: dict[str, Any]
    written: bool


def folder_of(out: Path) -> Path:
    """The folder that an export goes to, whether it or a file was named.

    Raises:
        UserError: it does not exist.
    """
    folder = out if out.is_dir() else out.parent
    if not folder.is_dir():
        raise UserError("the target's folder does not exist", where=folder,
                        next_step=f"mkdir -p {folder}")
    return folder


def default_name(source: Source) -> str:
    """NAME-VERSION-ID.sqsh; the ID is 12 hex of the image ID, so the name keeps the identity."""
    labels = source.config.get("Labels") or {}
    parts = [labels.get("org.opencontainers.image.title", "image"),
             labels.get("org.opencontainers.image.version", "0"),
             source.image_id.removeprefix("sha256:")[:12]]
    return "-".join(re.sub(r"[^0-9A-Za-z.+_-]", "_", part) for part in parts) + ".sqsh"


@dataclass(frozen=True)
class Exporter:
    """How images are exported.

    Attributes:
        programs: folder of the pinned mksquashfs and unsquashfs.
        settings: how the file is compressed.
        check: `full` reads every byte back, `quick` the entries alone.
        force: whether another file of the name may be replaced.
        progress: given a label and a total of bytes, gives what each step is told to.
        tell: given words of warning.
    """

    programs: Path
    settings: Settings = Settings()
    check: str = "full"
    force: bool = False
    progress: Callable[[str, int], Callable[[int], None]] = lambda _label, _n: lambda _done: None
    tell: Callable[[str], None] = lambda _words: None

    def export(self, source: Source, out: Path) -> Exported:
        """Write an image as one SquashFS file, its checksum and its record beside it.

        Args:
            out: a folder, or the file's name.

        Raises:
            UserError: another file has the name, there is no room, the target cannot be
                written, a part of the image is gone or damaged, or what was written is not
                the image.
        """
        final = out / default_name(source) if out.is_dir() else out
        folder_of(out)
        remove_left(final)
        record = self._record(source)
        with workplace(final) as work:
            if final.exists() and not self.force:
                return self._there_already(source, final, record, work)
            nodes, layers = self._tree(source, work)
            total = sum(node.size for node in nodes.values())
            _room(final.parent, total)
            part = work / "part.sqsh"
            write(nodes.values(), part, self.programs, self.settings,
                  self.progress("writing", total))
            record |= self._checked(part, nodes, layers)
            if not name_it(part, final, replace=self.force):
                return self._there_already(source, final, self._record(source), work)
        _beside(final, record)
        return Exported(final, record, True)

    def _record(self, source: Source) -> dict[str, Any]:
        return {"schema": SCHEMA, "format": FORMAT_VERSION, "image": source.image_id,
                "layers": source.layers, "architecture": source.architecture,
                "settings": dict(vars(self.settings))}

    def _tree(self, source: Source, scratch: Path) -> tuple[dict[str, Node], list[StoredLayer]]:
        def hidden(node: Node) -> None:
            self.tell(f"{node.path} is a {node.type} in the image: as in Enroot's own import, a "
                      "folder takes its place and hides what it led to")

        trees, layers = source.read(scratch)
        return merge_layers(trees, generated(source.config), hidden), layers

    def _checked(self, file: Path, nodes: dict[str, Node], layers: list[StoredLayer]
                 ) -> dict[str, Any]:
        """Read a file back; what its record says of it."""
        with ThreadPoolExecutor(1) as pool:
            # mksquashfs writes the first block last, so this cannot run beside it.
            digest = pool.submit(_sha256, file)
            if self.check == "full":
                total = sum(node.size for node in nodes.values())
                check(file, nodes, layers, self.programs,
                      self.progress("reading it back", total))
            else:
                check_entries(file, nodes, self.programs)
            return {"size": file.stat().st_size, "sha256": digest.result(), "check": self.check}

    def _there_already(self, source: Source, final: Path, record: dict[str, Any], work: Path
                       ) -> Exported:
        """Success if the file is this very export; read back where nothing says it was."""
        told = _told(final)
        if told is not None:
            if any(told.get(key) != record[key] for key in MADE):
                raise _occupied(final, f"an export of {told.get('image')}, otherwise made")
            if told["size"] != final.stat().st_size:
                raise _occupied(final, f"{final.stat().st_size} bytes, its record says "
                                       f"{told['size']}")
            if told["check"] == "full" or self.check != "full":
                return Exported(final, told, False)
        # A run may have been stopped between the file's name and its record's.
        nodes, layers = self._tree(source, work)
        try:
            record |= self._checked(final, nodes, layers)
        except UserError as error:
            raise _occupied(final, f"a file that is not this image: {error.what}") from error
        if told is not None and told["sha256"] != record["sha256"]:
            raise _occupied(final, "a file with another SHA-256 than its record's")
        _beside(final, record)
        return Exported(final, record, False)


def _told(final: Path) -> dict[str, Any] | None:
    """The record beside a file; None if there is none that can be read."""
    try:
        told = json.loads(Path(f"{final}.json").read_bytes())
        told.pop("file", None)  # what lies beside a file names it; the record itself does not
        return told if {*MADE, "size", "sha256", "check"} <= told.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _beside(final: Path, record: dict[str, Any]) -> None:
    """The checksum in sha256sum's format, which names the file, and the record.

    The record comes last: where it is, nothing is missing.
    """
    sidecars(final, {
        ".sha256": f"{record['sha256']}  {final.name}\n",
        ".json": json.dumps(record | {"file": final.name}, indent=2) + "\n",
    })


def _occupied(final: Path, got: str) -> UserError:
    return UserError("another file has the export's name", where=final, got=got,
                     expected="no file, or this very export",
                     next_step="remove it if it is damaged, give another name with -o, or replace "
                     "it with --force")


def _room(folder: Path, size: int) -> None:
    """Room for the worst case: nothing compresses."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise UserError("not enough room for the export", where=folder,
                        expected=f"{size} bytes, should nothing compress", got=f"{free} bytes",
                        next_step="make room, or choose another folder: -o, a profile's scratch")


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
