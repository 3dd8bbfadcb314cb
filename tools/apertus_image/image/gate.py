"""Builder: the last check before an image JSON gets its name.

    python3 -m apertus_image.image.gate SPEC OUT

Proves, from the manifests and the image JSON, that the image holds what was built:
every tree in exactly one layer, every path in exactly one tree (a declared overlay
replaces files and nothing else), no layer over its bound, no layer too many. Then
OUT is the image JSON, byte for byte.

Spec: {"image": path, "layers": [{"name", "trees": [{"path", "manifest"}], "overlay"?}],
"limits": {"bytes", "layers"}}, layers from the lowest up.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from apertus_image.errors import UserError, raise_all, run_builder
from apertus_image.tree.manifest import Entry, read

__all__ = ["build"]


def build(spec: dict, out: Path) -> None:
    """Copy the image JSON to `out` if nothing speaks against it.

    Raises:
        UserError: listing every fault found.
    """
    layers = spec["layers"]
    entries = {
        layer["name"]: [e for tree in layer["trees"] for e in read(Path(tree["manifest"]))]
        for layer in layers
    }
    image = json.loads(Path(spec["image"]).read_text())
    found = [
        *_placement(image, layers),
        *_disjoint(layers, entries),
        *_bounds(image, layers, entries, spec["limits"]),
    ]
    raise_all(found, "the image is not what was described: {n} faults")
    shutil.copyfile(spec["image"], out)


def _placement(image: dict, layers: list[dict]) -> Iterator[UserError]:
    """The image's layers are the described ones, in order, with all of their trees."""
    built = [sorted(path["path"] for path in layer["paths"]) for layer in image["layers"]]
    wanted = [sorted(tree["path"] for tree in layer["trees"]) for layer in layers]
    if built == wanted:
        return
    for number in range(max(len(built), len(wanted))):
        got = built[number] if number < len(built) else "no layer"
        want = wanted[number] if number < len(wanted) else "no layer"
        if got != want:
            name = layers[number]["name"] if number < len(layers) else f"number {number + 1}"
            yield UserError(
                "a layer does not hold the trees it was described with",
                where=f"layer {name}", expected=want, got=got,
                next_step="compare nix/image.nix with the image builder's output",
            )


def _disjoint(layers: list[dict], entries: dict[str, list[Entry]]) -> Iterator[UserError]:
    """Every path has one home; an overlay only ever replaces a file that is there."""
    homes: dict[str, tuple[str, Entry]] = {}
    for layer in layers:
        name, overlay = layer["name"], layer.get("overlay", False)
        for entry in entries[name]:
            home = homes.get(entry.path)
            if home is None:
                homes[entry.path] = (name, entry)
                continue
            other, earlier = home
            if entry.type == earlier.type == "dir":
                continue
            if overlay and entry.type == earlier.type == "file" and other != name:
                continue
            yield UserError(
                "two trees bring the same path",
                where=entry.path,
                expected="one home for every path",
                got=f"{earlier.type} from {earlier.origin} in layer {other}, "
                f"{entry.type} from {entry.origin} in layer {name}",
                next_step="drop one of them in nix/pins/waivers.json",
            )


def _bounds(
    image: dict, layers: list[dict], entries: dict[str, list[Entry]], limits: dict
) -> Iterator[UserError]:
    """Few enough layers, each small enough to be sent again after a cut connection."""
    if len(image["layers"]) > limits["layers"]:
        yield UserError(
            "the image has too many layers",
            expected=f"at most {limits['layers']}", got=len(image["layers"]),
            next_step="merge groups in nix/groups.nix",
        )
    for layer, built in zip(layers, image["layers"], strict=False):
        largest = max((entry.size or 0 for entry in entries[layer["name"]]), default=0)
        if built["size"] > limits["bytes"] and largest <= limits["bytes"]:
            yield UserError(
                "a layer is too large",
                where=f"layer {layer['name']}",
                expected=f"at most {limits['bytes']} bytes, unless one file is larger",
                got=f"{built['size']} bytes",
                next_step="split the group in nix/groups.nix",
            )


if __name__ == "__main__":
    run_builder(build)
