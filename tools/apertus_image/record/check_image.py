"""Whether an image's layers, or a layout's blobs, still have their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from apertus_image.oci.ahead import ahead
from apertus_image.oci.image import Image
from apertus_image.oci.layer import Layer, stream
from apertus_image.oci.layout import INDEX_TYPES, Descriptor, Layout
from apertus_image.oci.verify import difference
from apertus_image.record.report import Report
from apertus_image.tree import manifest

__all__ = ["Progress", "check_layers", "check_layout"]

Progress = Callable[[str, int], Callable[[int], None]]
MANIFESTS = "usr/share/apertus/manifests"
CHUNK = 1 << 20


def check_layers(report: Report, image: Image, physical: Callable[[str], Path], progress: Progress,
                 *, full: bool) -> None:
    """Every layer of an image, made again from the store; what is not there is not checked."""
    total = sum(layer.size for layer in image.layers)
    told = progress("reading the layers", total) if full else lambda _bytes: None
    for layer in image.layers:
        what = f"layer {layer.digest}"
        if made_by := layer.history.get("created_by"):
            what += f" ({made_by.removeprefix('apertus-image: ')})"
        paths = [physical(path.path) for path in layer.paths]
        if gone := [path for path in paths if not path.exists()]:
            report.unchecked(what, f"its store path is not here: {gone[0]}")
        elif not paths:
            report.unchecked(what, "the image says no store path of it")
        elif not full:
            report.unchecked(what, "its bytes are read with --full")
        else:
            report.attempt(what, lambda layer=layer, paths=paths: _check_layer(
                layer, paths, physical, told))


def _check_layer(layer: Layer, trees: list[Path], physical: Callable[[str], Path],
                 told: Callable[[int], None]) -> None:
    digest, size = hashlib.sha256(), 0
    for chunk in ahead(stream(layer.paths, physical)):
        digest.update(chunk)
        size += len(chunk)
        told(len(chunk))
    found = (f"sha256:{digest.hexdigest()}", size)
    if found != (layer.digest, layer.size):
        raise difference(layer, _recorded(trees), found, physical)


def _recorded(trees: list[Path]) -> list[manifest.Entry]:
    """What the trees' manifests say was built; nothing where one of them is what was changed."""
    entries: dict[str, manifest.Entry] = {}
    try:
        for tree in trees:
            files = sorted((tree / MANIFESTS).iterdir())
            told = chain.from_iterable(manifest.read(file) for file in files)
            entries |= {entry.path: entry for entry in told}
            # A manifest was written last and names neither itself nor its folders.
            for entry in _own(tree, files):
                entries.setdefault(entry.path, entry)
    except (OSError, ValueError, TypeError):
        return []
    return list(entries.values())


def _own(tree: Path, files: list[Path]) -> Iterator[manifest.Entry]:
    folder = tree / MANIFESTS
    for each in (folder, *folder.parents):
        if each == tree:
            break
        yield manifest.Entry(f"/{each.relative_to(tree)}", "dir", "generated")
    for file in files:
        data = file.read_bytes()
        yield manifest.Entry(f"/{file.relative_to(tree)}", "file", "generated", len(data),
                             hashlib.sha256(data).hexdigest(), False)


def check_layout(report: Report, layout: Layout, wanted: str, progress: Progress, *, full: bool
                 ) -> None:
    """Every blob of a layout, or of one of its images.

    Documents are always read; of layers the sizes alone, unless the check is full.
    """
    tops = [layout.manifest(wanted)] if wanted else layout.descriptors()
    layers: dict[str, Descriptor] = {}
    for top in tops:
        _document(report, layout, top, layers)
    told = progress("reading the layers", sum(each.size for each in layers.values()))
    for layer in layers.values():
        what = f"layer {layer.digest}"
        file = report.attempt(what, lambda layer=layer: layout.blob(layer), tell=False)
        if file is None:
            continue
        if not full:
            report.unchecked(what, "of the right size; its bytes are read with --full")
        else:
            report.compare(what, layer.digest, _sha256(file, told), file)


def _document(report: Report, layout: Layout, descriptor: Descriptor,
              layers: dict[str, Descriptor]) -> None:
    """A manifest or an index, and all that it names."""
    index = descriptor.media_type in INDEX_TYPES
    document = report.attempt(f"{'index' if index else 'manifest'} {descriptor.digest}",
                              lambda: layout.document(descriptor))
    if document is None:
        return
    where = layout.path(descriptor.digest)
    if index:
        for each in document.get("manifests") or []:
            _document(report, layout, Descriptor.parse(each, where), layers)
        return
    config = Descriptor.parse(document.get("config"), where)
    report.attempt(f"config {config.digest}", lambda: layout.document(config))
    for each in document.get("layers") or []:
        found = Descriptor.parse(each, where)
        layers[found.digest] = found


def _sha256(file: Path, told: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as data:
        while chunk := data.read(CHUNK):
            digest.update(chunk)
            told(len(chunk))
    return f"sha256:{digest.hexdigest()}"
