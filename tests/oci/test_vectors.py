"""Layers, images and config blobs as nix2container was seen to write them.

tests/oci/vectors/record.py recorded them with the pinned revision; these tests run where its
source is not, and test_differential compares the record with it where it is.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from apertus_image.oci.emit import emit_image, emit_layer
from apertus_image.oci.image import Image
from support import trees

HERE = Path(__file__).with_name("vectors")
RECORDED = json.loads((HERE / "recorded.json").read_text())


def load(name: str):
    """A module of the folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = load("cases")


@pytest.mark.parametrize("name", cases.LAYERS)
def test_layers(tmp_path, name):
    case = cases.LAYERS[name]
    places = {path: trees.make(tmp_path / str(number), description)
              for number, (path, description) in enumerate(case["trees"].items())}
    spec = {"rewrites": cases.rewrites(case), "perms": case.get("perms", []),
            "history": case.get("history", {}), "layers": []}
    emit_layer(spec, cases.graph(case), tmp_path / "out", physical=lambda path: places[path])
    assert (tmp_path / "out/layers.json").read_bytes().decode() == RECORDED["layers"][name]


@pytest.mark.parametrize("name", cases.IMAGES)
def test_images_and_config_blobs(tmp_path, name):
    case, folders = cases.IMAGES[name], []
    for number, layer in enumerate(case["layers"]):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        (folders[-1] / "layers.json").write_text(RECORDED["layers"][layer])
    (tmp_path / "config.json").write_text(json.dumps(case["config"]))
    out = tmp_path / "image.json"
    emit_image({"config": tmp_path / "config.json", "arch": case["arch"],
                "created": case["created"], "layers": folders}, out)
    assert out.read_bytes().decode() == RECORDED["images"][name]["image"]
    assert Image.load(out).config_blob().decode() == RECORDED["images"][name]["config"]


def test_every_case_is_recorded():
    assert set(RECORDED["layers"]) == set(cases.LAYERS)
    assert set(RECORDED["images"]) == set(cases.IMAGES)
