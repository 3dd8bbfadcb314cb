"""A layer that changed after its digest was made: the first entry and field are named."""

from __future__ import annotations

import json

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.emit import emit_layer
from apertus_image.oci.layer import Layer
from apertus_image.oci.verify import verify
from apertus_image.tree import manifest
from support import referee, trees

TREE = {"a/file": "text\n", "a/link": "-> file", "b/run": ("#!/bin/sh\n", True), "c/": "",
        "b/plain": ("#!/bin/sh\n", True),
        "a.b": "sorts after what is in a", "z": "last\n"}


@pytest.fixture
def made(tmp_path):
    """(tree, its layer, its manifest), the layer with a rule on a mode."""
    tree = trees.make(tmp_path / "t", TREE)
    perms = [{"path": str(tree), "regex": ".*/b/run$", "mode": "4755"}]
    emit_layer(referee.ours([tree], perms), [{"path": str(tree), "references": []}],
               tmp_path / "layer")
    layer = Layer.parse(json.loads((tmp_path / "layer/layers.json").read_text())[0])
    return tree, layer, list(manifest.scan(tree, "test"))


def overwrite(file, text):
    mode = file.stat().st_mode
    file.chmod(0o644)
    file.write_text(text)
    file.chmod(mode)


def replace(path, make):
    path.parent.chmod(0o755)
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    make(path)
    path.parent.chmod(0o555)


CHANGES = {
    "a byte": (lambda t: overwrite(t / "a/file", "tEXt\n"), "/a/file", "content"),
    "a length": (lambda t: overwrite(t / "z", "last!\n"), "/z", "size"),
    "an executable bit": (lambda t: (t / "z").chmod(0o555), "/z", "mode"),
    "a lost executable bit": (lambda t: (t / "b/plain").chmod(0o444), "/b/plain", "mode"),
    "a write bit": (lambda t: (t / "a/file").chmod(0o644), "/a/file", "mode"),
    "a folder's mode": (lambda t: (t / "c").chmod(0o755), "/c", "mode"),
    "a target": (lambda t: replace(t / "a/link", lambda p: p.symlink_to("filf")), "/a/link",
                 "target"),
    "a type": (lambda t: replace(t / "c", lambda p: p.symlink_to("a")), "/c", "type"),
    "a missing file": (lambda t: replace(t / "a/file", lambda p: None), "/a/file", "presence"),
    "one too many": (lambda t: replace(t / "a/new", lambda p: p.write_text("")), "/a/new",
                     "presence"),
    "two, the first in the tar's order": (
        lambda t: (overwrite(t / "a.b", "x"), overwrite(t / "a/file", "y")), "/a/file", "size"),
}


def test_what_did_not_change_passes(made):
    _, layer, recorded = made
    verify(layer, recorded)
    verify(layer)


@pytest.mark.parametrize(("change", "entry", "field"), CHANGES.values(), ids=CHANGES)
def test_the_first_entry_and_field_are_named(made, change, entry, field):  # case 2
    tree, layer, recorded = made
    change(tree)
    with pytest.raises(UserError) as error:
        verify(layer, recorded)
    assert error.value.where == f"{entry}: its {field}"
    assert error.value.expected != error.value.got
    assert layer.digest in error.value.what and error.value.next_step


def test_a_mode_that_a_rule_hides_does_not_matter(made):
    tree, layer, recorded = made
    (tree / "b/run").chmod(0o444)
    verify(layer, recorded)
    overwrite(tree / "z", "lost\n")
    with pytest.raises(UserError, match="/z: its content"):
        verify(layer, recorded)


def test_without_a_manifest_the_store_path_and_both_digests_are_named(made):  # case 2
    tree, layer, _ = made
    overwrite(tree / "a/file", "tEXt\n")
    with pytest.raises(UserError) as error:
        verify(layer)
    assert error.value.where == str(tree)
    assert layer.digest in error.value.expected and "sha256:" in error.value.got


def test_without_a_manifest_a_mode_that_no_store_has_is_named(made):
    tree, layer, _ = made
    (tree / "a/file").chmod(0o640)
    with pytest.raises(UserError) as error:
        verify(layer)
    assert error.value.where == "/a/file: its mode" and error.value.got == "0640"


def test_a_store_below_another_root(made, tmp_path):  # trap 11
    tree, layer, recorded = made
    moved = tmp_path / "elsewhere"
    tree.rename(moved)
    verify(layer, recorded, lambda path: moved)
    overwrite(moved / "z", "lost\n")
    with pytest.raises(UserError, match="/z: its content"):
        verify(layer, recorded, lambda path: moved)
