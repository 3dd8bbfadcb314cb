"""The order of a layer's store paths: most popular first, as nix2container has it.

Source: closure/popularity.go at the pinned revision, after
https://grahamc.com/blog/nix-and-layered-docker-images
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from typing import Any

__all__ = ["by_popularity"]


def by_popularity(graph: Iterable[Mapping[str, Any]]) -> list[str]:
    """Store paths by how many paths lead to them, the later seen first among equals.

    Args:
        graph: objects with `path` and `references`, sorted by path.
    """
    references: dict[str, list[str]] = {}
    numbers: dict[str, int] = {}
    for node in graph:
        numbers.setdefault(node["path"], len(numbers))
        others = sorted(set(node["references"]) - {node["path"]})
        references[node["path"]] = others
        for other in others:
            numbers.setdefault(other, len(numbers))
    popularity = dict.fromkeys(numbers, 1)
    users_first = TopologicalSorter({path: () for path in numbers})
    for path, others in references.items():
        for other in others:
            users_first.add(other, path)
    for path in users_first.static_order():
        for other in references.get(path, ()):
            popularity[other] += popularity[path]
    return sorted(numbers, key=lambda path: (-popularity[path], -numbers[path]))
