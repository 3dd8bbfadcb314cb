"""Builder: what nix2container's program does for buildLayer and buildImage.

    python3 -m apertus_image.oci.emit SPEC OUT

Spec of a layer: {"mode": "layer", "rewrites": [...], "perms": [...], "history": {...},
"graphs": [files that Nix wrote for exportReferencesGraph], "ignore": store paths, or "",
"layers": [outputs of layers whose paths are left out]}. OUT is a folder with layers.json.

Spec of an image: {"mode": "image", "config": file, "arch", "created", "layers": [...]}.
OUT is the image JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError, run_builder
from apertus_image.oci import gojson
from apertus_image.oci.closure import by_popularity
from apertus_image.oci.image import Image
from apertus_image.oci.layer import Layer, canonical_history, digest
from apertus_image.oci.paths import LayerPath, Perm

__all__ = ["closure", "emit_image", "emit_layer", "without"]


def emit_layer(spec: dict[str, Any], graph: list[dict], out: Path, physical=Path) -> None:
    """Write `out`/layers.json: one layer, or none where no path is left.

    Args:
        physical: where a store path lies on this machine.
    """
    above = {path for layer in _layers(spec["layers"]) for path in layer.paths}
    paths = tuple(path for path in _paths(spec, graph) if path not in above)
    layers = []
    if paths:
        found, size = digest(paths, physical)
        layers.append(Layer(found, size, paths, canonical_history(spec["history"])))
    out.mkdir()
    (out / "layers.json").write_text(
        gojson.indented([layer.json() for layer in layers] or None), encoding="utf-8"
    )


def _paths(spec: dict[str, Any], graph: list[dict]) -> Iterable[LayerPath]:
    rewrites = {r["path"]: (r["regex"], r["repl"]) for r in spec["rewrites"]}
    for path in by_popularity(sorted(graph, key=lambda node: node["path"])):
        perms = tuple(Perm.parse(perm) for perm in spec["perms"] if perm["path"] == path)
        yield LayerPath(path, rewrites.get(path), perms)


def _layers(files: Iterable[str]) -> list[Layer]:
    return [Layer.parse(layer) for file in files
            for layer in json.loads(Path(file, "layers.json").read_bytes()) or []]


def emit_image(spec: dict[str, Any], out: Path) -> None:
    """Write the image JSON."""
    config = json.loads(Path(spec["config"]).read_bytes())
    image = Image.make(config, _layers(spec["layers"]), spec["arch"], spec["created"])
    out.write_text(image.json(), encoding="utf-8")


def closure(texts: Iterable[str]) -> list[dict]:
    """The union of reference graphs in Nix's registration format.

    A graph is, for each path: the path, its deriver, the number of its references, and
    those, a line each (Nix manual, "exportReferencesGraph").
    """
    found: dict[str, dict] = {}
    for text in texts:
        lines = iter(text.splitlines())
        for path in lines:
            next(lines)
            references = [next(lines) for _ in range(int(next(lines)))]
            found[path] = {"path": path, "references": references}
    return list(found.values())


def without(ignored: str, graph: list[dict]) -> list[dict]:
    """The graph without the paths that the text `ignored` holds, as upstream's jq filter has it.

    Raises:
        UserError: another path needs an ignored one, which Nix refuses for upstream.
    """
    kept = [node for node in graph if node["path"] not in ignored]
    for node in kept:
        for needed in node["references"]:
            if needed in ignored:
                raise UserError("a path to ignore is needed by another in the layer",
                                where=node["path"], got=needed,
                                next_step="do not ignore it, or leave out what needs it")
    return kept


def build(spec: dict[str, Any], out: Path) -> None:
    """Run as the builder of a derivation."""
    if spec["mode"] == "image":
        emit_image(spec, out)
    else:
        graph = closure(Path(file).read_text() for file in spec["graphs"])
        emit_layer(spec, without(spec["ignore"], graph), out)


if __name__ == "__main__":
    run_builder(build)
