"""Which layers and which fields of the config change between two plans of an image."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from apertus_image.audit.derivations import Plan, PlannedLayer, Tree
from apertus_image.audit.foretell import Foreteller, worst
from apertus_image.audit.loader import Libraries
from apertus_image.audit.report import (
    ADDED,
    DEPENDENCY,
    MAY,
    OVERLAY,
    REMOVED,
    SAME,
    WILL,
    Change,
    LayerChange,
)
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.store.store import Store

__all__ = ["built", "config_changes", "layer_name", "predict", "with_images"]

PREFIX = "apertus-image: "


def predict(old: Plan, new: Plan, store: Store) -> list[LayerChange]:
    """Every layer, in the new image's order, those that are gone last.

    Layers are known by their trees and not by their names: one that is called otherwise has the
    same bytes.
    """
    foreteller = Foreteller(old, new, Libraries(store.physical))
    left = list(old.layers)
    pairs: list[tuple[PlannedLayer | None, PlannedLayer]] = []
    for by in (_names, lambda layer: layer.name):
        for layer in new.layers:
            if any(layer is taken for _, taken in pairs):
                continue
            match = next((each for each in left if by(each) == by(layer)), None)
            if match is not None:
                left.remove(match)
                pairs.append((match, layer))
    found = []
    for layer in new.layers:
        match = next((was for was, now in pairs if now is layer), None)
        found.append(_added(layer) if match is None else _compared(match, layer, foreteller))
    return found + [LayerChange(each.name, _part(each), REMOVED, "", estimate=(_estimate(each), 0))
                    for each in left]


def _names(layer: PlannedLayer) -> list[str]:
    return [tree.name for tree in layer.trees]


def _part(layer: PlannedLayer) -> str:
    return OVERLAY if layer.overlay else DEPENDENCY


def _added(layer: PlannedLayer) -> LayerChange:
    return LayerChange(layer.name, _part(layer), ADDED, "", estimate=(0, _estimate(layer)))


def _compared(old: PlannedLayer, new: PlannedLayer, foreteller: Foreteller) -> LayerChange:
    before = {tree.name: tree.derivation for tree in old.trees}
    found = [foreteller.tree(before[tree.name], tree.derivation) for tree in new.trees
             if tree.name in before]
    if others := sorted(set(_names(old)) ^ set(_names(new))):
        found.append((WILL, f"trees came or went: {', '.join(others)}"))
    elif old.perms != new.perms:
        found.append((MAY, "the rules on modes changed"))
    state, why = worst(found)
    if state == SAME and old.name != new.name:
        why = f"was called {old.name}"
    # An overlay that is none any more is told as what asks for more.
    part = OVERLAY if old.overlay and new.overlay else DEPENDENCY
    return LayerChange(new.name, part, state, why, estimate=(_estimate(old), _estimate(new)))


def _estimate(layer: PlannedLayer) -> int:
    """Bytes of the pinned files; what is unpacked of them is more."""
    return sum(pin.get("size", 0) for tree in layer.trees for pin in _pins(tree))


def _pins(tree: Tree) -> list[dict]:
    spec = tree.derivation.spec
    return [*spec.get("debs", []), *spec.get("wheels", [])]


def config_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Fields of two configs that differ; of lists and maps, what differs in them."""
    for key in sorted({*old, *new}):
        was, now = old.get(key), new.get(key)
        if was == now:
            continue
        if key == "Env":
            before, after = (dict(each.partition("=")[::2] for each in value or [])
                             for value in (was, now))
        elif isinstance(was or now, dict):
            before, after = was or {}, now or {}
        else:
            yield _config(key, was, now)
            continue
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        for name in names:
            yield _config(f"{key} {name}", before.get(name), after.get(name))
        if not names:
            yield Change("config", "changed", f"{key}'s order")


def _config(name: str, was: object, now: object) -> Change:
    kind = "added" if was is None else "removed" if now is None else "changed"
    return Change("config", kind, name, *("" if each is None else each if isinstance(each, str)
                                          else json.dumps(each) for each in (was, now)))


def layer_name(history: Mapping[str, Any]) -> str:
    """What a layer is called in its image's history."""
    return str(history.get("created_by", "")).removeprefix(PREFIX)


def with_images(layers: list[LayerChange], old: Image | None, new: Image | None
                ) -> list[LayerChange]:
    """The same layers with the digests and sizes that built images have, or better estimates.

    Where a layer stays the same, one image knows it for both.
    """
    sides = [{layer_name(layer.history): (layer.digest, layer.size) for layer in image.layers}
             if image else {} for image in (old, new)]
    found = []
    for each in layers:
        was_called = each.why.removeprefix("was called ") if each.state == SAME and each.why \
            else each.name
        before, after = sides[0].get(was_called), sides[1].get(each.name)
        if each.state == SAME:
            before, after = before or after, after or before
        found.append(replace(each, old=None if each.state == ADDED else before,
                             new=None if each.state == REMOVED else after))
    return [_scaled(each, _ratio(found)) for each in found]


def _ratio(layers: list[LayerChange]) -> float:
    """How much larger built layers are than the pinned files that they are made of."""
    known = [(side[1], estimate) for layer in layers
             for side, estimate in zip((layer.old, layer.new), layer.estimate, strict=True)
             if side and estimate]
    return sum(size for size, _ in known) / sum(each for _, each in known) if known else 1.0


def _scaled(layer: LayerChange, ratio: float) -> LayerChange:
    """Estimates by a layer's own other side, or by all that is known."""
    for known, estimate in zip((layer.old, layer.new), layer.estimate, strict=True):
        if known:
            if not estimate:  # of no pinned file: as large as it was
                return replace(layer, estimate=(known[1], known[1]))
            ratio = known[1] / estimate
    old, new = layer.estimate
    return replace(layer, estimate=(round(old * ratio), round(new * ratio)))


def built(plan: Plan, store: Store, *others: Path) -> Image | None:
    """A plan's image, if it has been built and is still in the store.

    Args:
        others: image JSONs that may be this image's, made by whichever maker.
    """
    trees = {tree.derivation.out for layer in plan.layers for tree in layer.trees}
    for file in (store.physical(plan.out), *others):
        try:
            image = Image.load(file)
        except UserError:
            continue
        if {path.path for layer in image.layers for path in layer.paths} == trees:
            return image
    return None
