"""An export under its final name: written beside it, read back, then renamed.

A killed export leaves nothing under the final name; the next one to the same name removes what
it left, and two at a time do not harm each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.squashfs.check import check
from apertus_image.squashfs.enroot import generated
from apertus_image.squashfs.tree import Node, image_tree
from apertus_image.squashfs.write import FORMAT_VERSION, Settings, write

__all__ = ["Exported", "default_name", "export"]

CHUNK = 1 << 20


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


def default_name(image: Image) -> str:
    """NAME-VERSION-ID.sqsh; the ID is 12 hex of the image ID, so the name keeps the identity."""
    labels = image.config.get("Labels") or {}
    parts = [labels.get("org.opencontainers.image.title", "image"),
             labels.get("org.opencontainers.image.version", "0"),
             image.image_id.removeprefix("sha256:")[:12]]
    return "-".join(re.sub(r"[^0-9A-Za-z.+_-]", "_", part) for part in parts) + ".sqsh"


def export(
    image: Image, out: Path, programs: Path, *,
    settings: Settings | None = None, force: bool = False, physical=Path,
    progress: Callable[[str, int], Callable[[int], None]] = lambda _label, _n: lambda _done: None,
) -> Exported:
    """Write an image as one SquashFS file, its checksum and its record beside it.

    Args:
        out: a folder, or the file's name.
        programs: folder of the pinned mksquashfs and unsquashfs.
        force: whether another file of that name may be replaced.
        progress: given a label and a total, gives what each step is told to.

    Raises:
        UserError: another file has the name, there is no room, the target cannot be
            written, a store path is gone, or what was written is not the image.
    """
    settings = settings or Settings()
    final = out / default_name(image) if out.is_dir() else out
    if not final.parent.is_dir():
        raise UserError("the target's folder does not exist", where=final.parent,
                        next_step=f"mkdir -p {final.parent}")
    _remove_left(final)
    nodes = image_tree(image, generated(image.config), physical)
    record = _record(image, settings)
    if final.exists() and not force:
        return _there_already(final, record, nodes, programs)
    size = sum(node.size for node in nodes.values())
    _room(final.parent, size)
    with _workplace(final) as work:
        part = work / "part.sqsh"
        write(nodes.values(), part, programs, settings, _percent(progress, size))
        with ThreadPoolExecutor(1) as pool:
            digest = pool.submit(_sha256, part)
            check(part, nodes, programs, progress("reading it back", size))
            record |= {"file": final.name, "size": part.stat().st_size,
                       "sha256": digest.result(), "check": "full"}
        part.chmod(0o644 & ~_umask())
        _synced(part)
        if force:
            part.replace(final)
        else:
            try:
                os.link(part, final)  # never over another's file
            except FileExistsError:
                return _there_already(final, record, nodes, programs)
    _sidecars(final, record)
    return Exported(final, record, True)


def _record(image: Image, settings: Settings) -> dict[str, Any]:
    return {"format": FORMAT_VERSION, "image": image.image_id,
            "layers": [layer.digest for layer in image.layers],
            "architecture": image.architecture, "settings": dict(vars(settings))}


def _there_already(
    final: Path, record: Mapping[str, Any], nodes: Mapping[str, Node], programs: Path
) -> Exported:
    """Success if the file is this very export; read back where nothing says it was."""
    sidecar = Path(f"{final}.json")
    made = ("format", "image", "layers", "architecture", "settings")
    told = json.loads(sidecar.read_text()) if sidecar.is_file() else None
    if told is None:
        # A run may have been stopped between the file's name and its record's.
        try:
            check(final, nodes, programs)
        except UserError as error:
            raise _occupied(final, "a file that is not this image") from error
        told = {**record, "file": final.name, "size": final.stat().st_size,
                "sha256": _sha256(final), "check": "full"}
        _sidecars(final, told)
    elif any(told.get(key) != record[key] for key in made):
        raise _occupied(final, f"an export of {told.get('image')}")
    elif told["size"] != final.stat().st_size:
        raise _occupied(final, f"{final.stat().st_size} bytes, its record says {told['size']}")
    return Exported(final, told, False)


def _occupied(final: Path, got: str) -> UserError:
    return UserError("another file has the export's name", where=final, got=got,
                     expected="no file, or this very export",
                     next_step="give another name with -o, or replace it with --force")


def _room(folder: Path, size: int) -> None:
    """Room for the worst case: nothing compresses."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise UserError("not enough room for the export", where=folder,
                        expected=f"{size} bytes, should nothing compress", got=f"{free} bytes",
                        next_step="make room, or choose another folder with -o")


@contextlib.contextmanager
def _workplace(final: Path) -> Iterator[Path]:
    """A folder beside the final name, and a lock beside that while its export lives.

    The kernel frees the lock of a killed export, which is how the next one knows that the
    folder is nobody's. The lock comes first, so that no folder is without one.
    """
    token = f".{final.name}.{secrets.token_hex(6)}"
    lock, work = final.parent / f"{token}.lock", final.parent / f"{token}.part"
    try:
        held = lock.open("x")
    except OSError as error:
        raise UserError("the target cannot be written", where=final.parent, got=error.strerror,
                        next_step="choose another folder with -o") from error
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        work.mkdir()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
            lock.unlink(missing_ok=True)


def _remove_left(final: Path) -> None:
    """Remove what killed exports to this name left, but not what is at work."""
    for left in final.parent.glob(f".{final.name}.*.lock"):
        try:
            with left.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left.with_suffix(".part"), ignore_errors=True)
                left.unlink(missing_ok=True)
        except (BlockingIOError, FileNotFoundError):
            continue


def _sidecars(final: Path, record: Mapping[str, Any]) -> None:
    """The record and the checksum, in sha256sum's format, each by rename."""
    with _workplace(final) as work:
        for suffix, text in (
            (".json", json.dumps(record, indent=2) + "\n"),
            (".sha256", f"{record['sha256']}  {final.name}\n"),
        ):
            part = work / f"beside{suffix}"
            part.write_text(text)
            part.chmod(0o644 & ~_umask())
            _synced(part)
            part.replace(f"{final}{suffix}")
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _percent(progress, size: int) -> Callable[[int], None]:
    """mksquashfs tells percentages; progress counts bytes."""
    told, done = progress("writing", size), 0

    def step(percent: int) -> None:
        nonlocal done
        now = size * percent // 100
        told(now - done)
        done = now

    return step


def _synced(file: Path) -> None:
    with file.open("rb") as data:
        os.fsync(data.fileno())


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as data:
        while chunk := data.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
