"""What a build is made of: the derivations that are built, and the fixed outputs they start from.

Source: Nix manual, "Derivations": a `.drv` is one term, `Derive(outputs, inputs, …)`, whose
strings, lists and tuples are written as Python writes them. The text has not changed in any
version of Nix, unlike the JSON of `nix derivation show`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from apertus_image.errors import UserError
from apertus_image.store.store import Store

__all__ = ["Derivations", "derivations"]

TERM = "Derive"


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
        outputs, inputs = _read(one, store)
        if any(hash_ for _name, _path, _kind, hash_ in outputs):
            fixed.update(output for _name, output, _kind, _hash in outputs)
        else:
            built.add(one)
            left += [each for each, _names in inputs]
    return Derivations(tuple(sorted(built)), tuple(sorted(fixed)))


def _read(path: str, store: Store) -> tuple[list, list]:
    try:
        text = store.physical(path).read_text(encoding="utf-8", errors="surrogateescape")
        outputs, inputs, *_ = ast.literal_eval(text.removeprefix(TERM))
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError("a derivation cannot be read", where=path, got=error,
                        next_step="nix-store --verify --repair") from error
    return outputs, inputs
