"""What an export or an image is, without mounting or unpacking it."""

from __future__ import annotations

import json
import posixpath
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.squashfs.check import listing
from apertus_image.squashfs.source import Source

__all__ = ["describe_export", "describe_image", "environments"]

MAGIC = b"hsqs"
CONTENT_ID = "usr/share/apertus/content-id"


def describe_export(file: Path, programs: Path) -> dict[str, Any]:
    """A `.sqsh`: what its record says, and what is in it.

    Args:
        programs: folder of the pinned unsquashfs.

    Raises:
        UserError: it is no SquashFS, or cannot be read.
    """
    try:
        with file.open("rb") as data:
            start = data.read(4)
    except OSError as error:
        raise UserError("the file cannot be read", where=file, got=error.strerror) from error
    if start != MAGIC:
        raise UserError("not a SquashFS file", where=file, expected=MAGIC, got=start)
    paths = [each.node.path for each in listing(file, programs)]

    def text(path: str) -> str:
        shown = subprocess.run([str(programs / "unsquashfs"), "-cat", str(file), path.lstrip("/")],
                               capture_output=True, env={"LC_ALL": "C"})
        return shown.stdout.decode("utf-8", "surrogateescape") if not shown.returncode else ""

    try:
        record = json.loads(Path(f"{file}.json").read_bytes())
    except (OSError, ValueError):
        record = {}
    size = file.stat().st_size
    standing = "beside it" if record else "none"
    if record and record.get("size") != size:
        record, standing = {}, "of another file"
    return {
        "kind": "export", "path": str(file), "size": size, "record": standing,
        **{key: record.get(key)
           for key in ("image", "sha256", "check", "architecture", "settings")},
        "layers": [{"digest": each} for each in record.get("layers") or []],
        "content_id": text(CONTENT_ID).strip() or None,
        "labels": _labels(text("etc/rc")),
        "env": text("etc/environment").splitlines(),
        "environments": environments(paths),
        "entries": len(paths),
    }


def describe_image(source: Source, image: Image | None = None,
                   physical: Callable[[str], Path] = Path) -> dict[str, Any]:
    """An image of the store, or of a layout.

    Args:
        image: of the store, None for a layout, whose blobs are not looked into.
        physical: where a store path lies on this machine.
    """
    trees = [physical(path.path) for layer in image.layers for path in layer.paths] if image else []
    content_ids = [tree / CONTENT_ID for tree in trees if (tree / CONTENT_ID).is_file()]
    layers = [{"digest": layer.digest, "size": layer.size,
               "what": layer.history.get("created_by", "")} for layer in image.layers
              ] if image else [{"digest": each} for each in source.layers]
    config = source.config
    return {
        "kind": "image", "image": source.image_id, "architecture": source.architecture,
        "size": sum(layer.get("size", 0) for layer in layers) or None, "layers": layers,
        "labels": dict(config.get("Labels") or {}), "env": list(config.get("Env") or []),
        "entrypoint": config.get("Entrypoint"), "cmd": config.get("Cmd"),
        "workdir": config.get("WorkingDir"),
        "content_id": content_ids[-1].read_text().strip() if content_ids else None,
        "environments": environments(_python_heads(trees)),
    }


def _python_heads(trees: Iterable[Path]) -> Iterator[str]:
    """The names that tell of Python environments, where this project's images have them."""
    for tree in trees:
        for pattern in ("opt/*/pyvenv.cfg", "opt/*/lib/*/site-packages/*.dist-info"):
            for path in tree.glob(pattern):
                yield f"/{path.relative_to(tree)}"


def environments(paths: Iterable[str]) -> list[dict[str, Any]]:
    """Python environments (PEP 405) and how many packages each has, by what is installed."""
    paths = set(paths)  # an overlay repeats some
    roots = sorted(posixpath.dirname(path) for path in paths if path.endswith("/pyvenv.cfg"))
    return [{"path": root, "packages": sum(
        path.startswith(f"{root}/") and path.endswith(".dist-info") for path in paths)}
        for root in roots]


def _labels(rc: str) -> dict[str, str]:
    """From the comments that head /etc/rc."""
    labels = {}
    for line in rc.splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line.removeprefix("# ").partition(" ")
        labels[key] = value
    return labels
