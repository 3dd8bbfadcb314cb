"""What a build is made of: derivations that are built, and the fixed outputs they start from."""

from __future__ import annotations

from dataclasses import dataclass

from apertus_image.audit.derivations import Derivation
from apertus_image.store.store import Store

__all__ = ["Derivations", "derivations"]


@dataclass(frozen=True)
class Derivations:
    """A derivation's closure.

    Attributes:
        built: store paths of the derivations that are not fixed-output, sorted.
        fixed: output paths of the fixed-output ones that those need, sorted. What they are made
            by in turn is left out: their bytes are their hash.
    """

    built: tuple[str, ...]
    fixed: tuple[str, ...]


def derivations(path: str, store: Store) -> Derivations:
    """The closure of a derivation.

    Args:
        path: its store path, `….drv`.

    Raises:
        UserError: a derivation is gone or not understood.
    """
    built: set[str] = set()
    fixed: set[str] = set()
    seen: set[str] = set()
    left = [path]
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        derivation = Derivation.read(store.physical(one))
        if derivation.fixed:
            fixed.update(output for _name, output, *_ in derivation.outputs)
        else:
            built.add(one)
            left += derivation.inputs
    return Derivations(tuple(sorted(built)), tuple(sorted(fixed)))
