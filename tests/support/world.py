"""The build world as tests ask Nix for it: attributes of tests/nix/fixture.nix."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from apertus_image.store.store import Store

FIXTURE = Path(__file__).parents[1] / "nix/fixture.nix"


def nix(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Nix command, told of no mirror but those in `variables`."""
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith("APERTUS_")}
    return subprocess.run(
        [*map(str, arguments), *Store().nix_args(), "--option", "substituters", ""],
        capture_output=True, text=True, env={**surroundings, **variables}, timeout=600,
    )


def evaluate(expression: str) -> object:
    result = nix("nix-instantiate", "--eval", "--strict", "--json", "--expr", expression)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def build(attribute: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return nix("nix-build", "--no-out-link", FIXTURE, "-A", attribute, *arguments, **variables)


def built(attribute: str, *arguments: str) -> Path:
    """The store path of an attribute of the fixture."""
    result = build(attribute, *arguments)
    if "tools/prefetch" in result.stderr:
        pytest.skip("not run: the toolchain's packages are not in the store (tools/prefetch)")
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.split()[-1])
