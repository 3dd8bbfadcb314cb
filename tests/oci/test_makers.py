"""The two makers as Nix sees them: one description, the same derivations' names and files."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.build.maker import locked_source
from apertus_image.store.store import Store

ROOT = Path(__file__).parents[2]
MAKERS = Path(__file__).with_name("makers.nix")
EMITTER = ROOT / "nix/emitter"
STORE = Store()

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix-build"), reason="not run: Nix is not here"),
]


def nix(command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *STORE.nix_args(), MAKERS, *arguments], capture_output=True,
                          text=True, timeout=600)


def source() -> str:
    path = locked_source(ROOT)[0]
    if not STORE.valid([path]):
        pytest.skip("not run: nix2container's source is not here")
    return path


def tried(maker: str | Path, attribute: str) -> subprocess.CompletedProcess[str]:
    result = nix("nix-build", "--no-out-link", "--arg", "maker", maker, "-A", attribute)
    if "tools/prefetch" in result.stderr:
        pytest.skip("not run: the toolchain's packages are not in the store (tools/prefetch)")
    return result


def build(maker: str | Path, attribute: str) -> Path:
    result = tried(maker, attribute)
    assert result.returncode == 0, result.stderr
    return STORE.physical(result.stdout.split()[-1])


def facts(maker: str | Path, attribute: str = "facts"):
    result = nix("nix-instantiate", "--eval", "--strict", "--json", "--arg", "maker", maker,
                 "-A", attribute)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("attribute", ["below", "above"])
def test_layers_are_the_same(attribute):
    """With references, paths that a lower layer has, one to ignore, and rules."""
    theirs, ours = build(source(), attribute), build(EMITTER, attribute)
    assert (ours / "layers.json").read_bytes() == (theirs / "layers.json").read_bytes()


@pytest.mark.parametrize("attribute", ["image", "tagged"])
def test_images_are_the_same(attribute):
    assert build(EMITTER, attribute).read_bytes() == build(source(), attribute).read_bytes()


def test_names_and_tags_are_the_same():
    assert facts(EMITTER) == facts(source())


def test_fourteen_layers_each_above_all_before():  # case 5
    assert facts(EMITTER, "nestedInChain") == 13
    layers = json.loads(build(EMITTER, "chained").read_text())["layers"]
    assert len(layers) == 14
    names = [path["path"].rpartition("-")[2] for layer in layers for path in layer["paths"]]
    assert names == [str(number) for number in range(14)]


def test_an_ignored_path_that_is_needed_is_refused_by_both():
    theirs, ours = tried(source(), "needed"), tried(EMITTER, "needed")
    assert theirs.returncode != 0 and "not allowed to refer to" in theirs.stderr
    assert ours.returncode != 0 and "a path to ignore is needed by another" in ours.stderr


def test_the_layers_hold_what_was_asked():
    layer, = json.loads((build(EMITTER, "above") / "layers.json").read_text())
    names = [path["path"].split("-", 1)[1] for path in layer["paths"]]
    assert sorted(names) == ["more", "other", "root"]  # library and program lie below
    assert layer["History"] == {"created_by": "by", "author": "é <a@b>", "comment": "c & d"}
    assert json.loads(build(EMITTER, "image").read_text())["arch"] == "arm64"  # case 6


@pytest.mark.parametrize(("attribute", "what"), [
    ("layers", "maxLayers other than 1"), ("writable", "reproducible = false"),
    ("base", "fromImage"), ("database", "initializeNixDatabase"), ("contents", "contents"),
    ("arch", "arch is not given"),
])
def test_the_emitter_refuses_what_it_does_not_do(attribute, what):
    result = nix("nix-instantiate", "-A", f"refused.{attribute}")
    assert result.returncode != 0
    assert "nix/emitter: " in result.stderr and what in result.stderr
