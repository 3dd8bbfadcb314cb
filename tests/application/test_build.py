"""The builder of the layer with a user's code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apertus_image.application import prepared
from apertus_image.application.build import build
from apertus_image.errors import UserError
from apertus_image.tree import manifest
from support import trees


def built(source: Path, out: Path) -> dict[str, manifest.Entry]:
    file = out / "usr/share/apertus/manifests/application-source"
    build({"source": str(source)}, out, file)
    return {entry.path: entry for entry in manifest.read(file)}


def test_code_goes_to_its_place_as_it_is(tmp_path):
    tree = prepared.write(tmp_path / "source", "/srv/app")
    trees.make(tree, {"bin/run": ("#!/bin/sh\n", True), "a.py": "x = 1\n", "l": "-> ./bin//run",
                      "folder": "-> bin", "abs": "-> /nowhere"})
    found = built(tmp_path / "source", tmp_path / "out")
    app = tmp_path / "out/srv/app"
    assert (app / "a.py").read_text() == "x = 1\n"
    assert os.readlink(app / "l") == "./bin//run" and os.readlink(app / "folder") == "bin"
    assert found["/srv/app/bin/run"].executable and not found["/srv/app/a.py"].executable
    assert found["/srv/app/abs"].target == "/nowhere"
    assert {entry.origin for entry in found.values()} == {"source"}
    assert not list(app.rglob("*.pyc")) and "/srv/app/apertus-source.json" not in found


def test_a_bare_tree_and_a_prepared_one_give_the_same(tmp_path):
    description = {"a.py": "x\n", "d/b": ("y", True)}
    bare = trees.make(tmp_path / "bare", description)
    trees.make(prepared.write(tmp_path / "source", "/opt/nemo-rl"), description)
    assert built(bare, tmp_path / "one") == built(tmp_path / "source", tmp_path / "two")


def test_gits_own_folder_is_refused(tmp_path):
    (tmp_path / "source/.git").mkdir(parents=True)
    (tmp_path / "source/.git/config").write_text("[core]")
    with pytest.raises(UserError, match="git's own folder"):
        built(tmp_path / "source", tmp_path / "out")


def test_an_empty_or_special_source_is_refused(tmp_path):
    (tmp_path / "source/d").mkdir(parents=True)
    with pytest.raises(UserError, match="holds no file"):
        built(tmp_path / "source", tmp_path / "out")
    os.mkfifo(tmp_path / "source/pipe")
    with pytest.raises(UserError, match="no file, link or folder"):
        built(tmp_path / "source", tmp_path / "out")
    with pytest.raises(UserError, match="no folder"):
        built(tmp_path / "source/pipe", tmp_path / "out")
