"""An image built from nothing but its inputs, in a store and surroundings of its own.

The store lies elsewhere (trap 11) and holds only fixed outputs at first, so every other
derivation, the toolchain's too, is truly built again and not merely found (trap 12).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from apertus_image.audit.closure import Derivations, derivations
from apertus_image.audit.vary import Surroundings
from apertus_image.build.maker import INPUT, Maker, locked_source
from apertus_image.errors import UserError
from apertus_image.store.store import Store

__all__ = ["Inputs", "Second", "build_again", "filled", "inputs_of"]


class Second(Store):
    """The second build's store.

    Args:
        root: directory that it lies below.
        around: who uses it, and with which settings.
    """

    def __init__(self, root: Path, around: Surroundings) -> None:
        super().__init__(root)
        self._around = around

    def settings(self) -> dict[str, str]:
        settings = super().settings()
        if self._around.uid is not None:
            settings.pop("build-users-group", None)
        # Nothing may come ready-made.
        return settings | {"substituters": ""} | dict(self._around.settings)


@dataclass(frozen=True)
class Inputs:
    """What a second build starts from.

    Attributes:
        closure: of the image's derivation.
        paths: store paths to copy: fixed outputs, and the maker's source.
    """

    closure: Derivations
    paths: tuple[str, ...]


def inputs_of(checkout: Path, image: str, store: Store, maker: Maker) -> Inputs:
    """What an image is built from.

    Args:
        store: the first build's, with all inputs in it.

    Raises:
        UserError: it cannot be evaluated, or an input is not in the store.
    """
    command = ["nix", *store.nix_args(), "eval", "--raw", f"{checkout}#{image}.drvPath",
               *maker.arguments]
    ran = subprocess.run(command, capture_output=True, text=True,
                         env=os.environ | store.environment(checkout))
    if ran.returncode:
        raise UserError("the image cannot be evaluated", where=image,
                        got=ran.stderr.strip()[-2000:], next_step="tools/build NAME says the same")
    closure = derivations(ran.stdout.strip(), store)
    source = [locked_source(checkout)[0]] if maker.name == INPUT else []
    paths = (*closure.fixed, *source)
    if missing := sorted(set(paths) - store.valid(paths)):
        raise UserError(f"{len(missing)} inputs are not in the store", where=missing[0],
                        next_step=f"tools/prefetch {image} --maker {maker.name}")
    return Inputs(closure, paths)


def filled(first: Store, second: Second, inputs: Inputs) -> None:
    """Copy the inputs into the second store.

    Raises:
        UserError: a copy failed.
    """
    command = ["nix", *first.nix_args(), "copy", "--no-check-sigs", "--to", str(second.root),
               *([] if sys.stderr.isatty() else ["--quiet"]), *inputs.paths]
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        raise UserError("the inputs cannot be copied; Nix's message is above", where=second.root,
                        next_step="make room, or choose another place with --scratch")


def build_again(checkout: Path, attribute: str, second: Second, maker: Maker,
                around: Surroundings) -> Path:
    """Build an output of the flake in other surroundings; its store path.

    Raises:
        UserError: Nix failed; its own words went to stderr already.
    """
    command = ["nix", *second.nix_args(), "build", f"{checkout}#{attribute}", *maker.arguments,
               "--option", "log-lines", "60", "--no-link", "--json"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=checkout,
                         env=dict(around.variables), preexec_fn=around.enter)
    if ran.returncode:
        raise UserError(
            f"the second build of {attribute} failed; Nix's message is above",
            where="in the varied surroundings",
            next_step="compare with tools/build; a build that needs its surroundings is at fault")
    return Path(json.loads(ran.stdout)[0]["outputs"]["out"])
