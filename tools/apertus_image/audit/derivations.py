"""What a revision's image would be made of and by: its derivations, evaluated but not built.

The store's .drv files are read here, since what `nix derivation show` writes differs from release
to release. Source: Nix manual, "Store derivation and deriving path" (ATerm format).
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.store.store import Store

__all__ = ["Derivation", "Plan", "PlannedLayer", "Tree", "evaluate"]

OVERLAY_LAYERS = ("source",)  # besides those that the image's description calls overlay
PINNED = (".whl.drv", ".deb.drv")  # known from the specs of those that take them
# What says how a derivation is called or kept, and not what it makes.
BESIDE = ("name", "out", "spec", "specPath")


@dataclass(frozen=True)
class Derivation:
    """One derivation.

    Attributes:
        outputs: (name, store path, kind of hash, hash) of each; a fixed output has a hash.
        inputs: store paths of the derivations that it needs.
        args, env: as Nix would call the builder.
    """

    outputs: tuple[tuple[str, str, str, str], ...]
    inputs: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]

    @classmethod
    def read(cls, file: Path) -> Derivation:
        """Parse a .drv.

        Raises:
            UserError: it is none that this version can read.
        """
        try:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
            if not text.startswith("Derive("):
                raise ValueError(text[:40])
            # The ATerm form is Python's own of nested lists, tuples and texts.
            outputs, inputs, _, _, _, args, env = ast.literal_eval(text.removeprefix("Derive"))
            return cls(tuple(outputs), tuple(path for path, _ in inputs), tuple(args), dict(env))
        except (OSError, ValueError, SyntaxError, TypeError) as error:
            raise UserError("a derivation cannot be read", where=file, got=error,
                            expected="Derive(...), as Nix writes it",
                            next_step="nix-store --verify --repair") from error

    @property
    def out(self) -> str:
        """Store path of its first output."""
        return self.outputs[0][1]

    @property
    def fixed(self) -> bool:
        """Whether its outputs are known by their hash beforehand."""
        return any(sha256 for *_, sha256 in self.outputs)

    @cached_property
    def spec(self) -> Any:
        """What a builder of this project is told; an empty object for others."""
        return json.loads(self.env.get("spec", "{}"))

    @property
    def module(self) -> str:
        """`wheel.build`, say; empty for what is no builder of this project's."""
        names = [each for each in self.args if each.startswith("apertus_image.")]
        return names[0].removeprefix("apertus_image.") if names else ""

    @cached_property
    def program(self) -> tuple:
        """All that decides how the work is done, and nothing of what it is done on."""
        args = tuple(each for each in self.args if not each.startswith("/"))
        return args, tuple(sorted((key, value) for key, value in self.env.items()
                                  if key not in BESIDE))


@dataclass(frozen=True)
class Tree:
    """One tree of a layer.

    Attributes:
        name: the derivation's, `userland-x86_64`.
    """

    name: str
    derivation: Derivation


@dataclass(frozen=True)
class PlannedLayer:
    """A layer as it would be built.

    Attributes:
        perms: rules, with the trees' names in place of their store paths.
    """

    name: str
    overlay: bool
    trees: tuple[Tree, ...]
    perms: str


@dataclass(frozen=True)
class Plan:
    """An image as it would be built.

    Attributes:
        out: where its JSON would lie.
        config: what its config would say, `architecture` and `created` with it.
        project: root of the revision's files.
        by_out: output -> derivation, of all that the image needs.
    """

    out: str
    layers: tuple[PlannedLayer, ...]
    config: Mapping[str, Any]
    project: Path
    by_out: Mapping[str, Derivation]


def evaluate(project: Path, image: str, store: Store, label: str,
             known: dict[str, Derivation] | None = None) -> Plan:
    """What an image would be made of; nothing is built and no network is asked.

    The layers' trees are the same whichever program writes the layers, so the emitter stands in.

    Args:
        project: root of the revision's files.
        image: an output of the flake, `smoke-image`.
        label: the revision, for errors.
        known: derivations read before, which two revisions mostly share; added to.

    Raises:
        UserError: Nix is missing, the revision cannot be evaluated or has no such image.
    """
    root = _instantiated(project, image, store, label)
    known = {} if known is None else known
    found: dict[str, Derivation] = {}
    waiting = [root]
    while waiting:
        path = waiting.pop()
        if path not in found and not path.endswith(PINNED):
            if path not in known:
                known[path] = Derivation.read(store.physical(path))
            found[path] = known[path]
            waiting += found[path].inputs
    by_out = {each.out: each for each in found.values()}
    try:
        return _plan(found[root], by_out, project)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise UserError("a revision's image is described in a form that this version cannot read",
                        where=label, got=f"{type(error).__name__}: {error}",
                        next_step="use the tools/audit of that revision") from error


def _instantiated(project: Path, image: str, store: Store, label: str) -> str:
    def quoted(path: Path) -> str:
        text = json.dumps(str(path.resolve()), ensure_ascii=False).replace("${", "\\${")
        return f"(/. + {text})"

    expression = (f"(import {quoted(project / 'nix')} {{ system = builtins.currentSystem; "
                  f"nix2container = {quoted(project / 'nix/emitter')}; }}).packages")
    command = ["nix-instantiate", *store.nix_args(), "--expr", expression, "-A", image]
    try:
        result = subprocess.run(command, capture_output=True, text=True, cwd=project,
                                env=os.environ | store.environment(project))
    except FileNotFoundError as error:
        raise UserError("Nix is not installed", next_step="tools/build --setup") from error
    if result.returncode:
        said = result.stderr.strip()
        raise UserError("a revision cannot be evaluated, so its layers cannot be foretold",
                        where=f"{label}: {image}", got=said[said.rfind("error:"):][:2000],
                        next_step="mend what it names; --image chooses another image")
    return result.stdout.split()[-1].partition("!")[0]


def _plan(root: Derivation, by_out: Mapping[str, Derivation], project: Path) -> Plan:
    maker = by_out[root.spec["image"]]
    made = [by_out[path] for path in maker.spec["layers"]]
    config = json.loads(by_out[maker.spec["config"]].env["text"])
    layers = []
    for layer in root.spec["layers"]:
        paths = [tree["path"] for tree in layer["trees"]]
        trees = tuple(Tree(by_out[path].env["name"], by_out[path]) for path in paths)
        own = next(each for each in made
                   if {one["path"] for one in each.spec["rewrites"]} == set(paths))
        perms = json.dumps(own.spec["perms"], sort_keys=True)
        for tree in trees:
            perms = perms.replace(tree.derivation.out, tree.name)
        layers.append(PlannedLayer(layer["name"], layer["overlay"] or layer["name"]
                                   in OVERLAY_LAYERS, trees, perms))
    return Plan(root.out, tuple(layers), config | {
        "architecture": maker.spec["arch"], "created": maker.spec["created"]}, project, by_out)


