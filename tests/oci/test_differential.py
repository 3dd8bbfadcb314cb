"""The emitter against the real nix2container: the same JSON, byte for byte."""

from __future__ import annotations

import json
import subprocess

import pytest
from apertus_image.oci.emit import emit_image, emit_layer
from support import referee, trees

HISTORY = {"created_by": "a <b> & \"c\" é \u2028", "comment": "tab\there"}


def graph(paths):
    return [{"path": str(path), "references": []} for path in paths]


def compare(folder, paths, perms=None):
    result = referee.layers(folder, paths, perms, HISTORY)
    assert result.returncode == 0, result.stderr
    emit_layer(referee.ours(paths, perms, HISTORY), graph(paths), folder / "ours")
    assert (folder / "ours/layers.json").read_bytes() == (folder / "upstream.json").read_bytes()


def test_odd_names_modes_and_links(tmp_path):
    compare(tmp_path, [trees.make(tmp_path / "odd", trees.ODD)])


def test_several_sources_that_share_folders(tmp_path):  # case 3
    one = trees.make(tmp_path / "one", {"etc/a": "a", "share/x/y": "1", "same": "s"})
    two = trees.make(tmp_path / "two", {"etc/b": "b", "share/x/z": "2", "same": "s"})
    compare(tmp_path, [one, two])


def test_rules_on_modes_and_owners(tmp_path):
    tree = trees.make(tmp_path / "odd", trees.ODD)
    compare(tmp_path, [tree], [
        {"path": str(tree), "regex": ".*/etc.*", "mode": "0640"},
        {"path": str(tree), "regex": ".*links.*", "mode": "1777", "uid": 5, "gname": "x"},
        {"path": str(tree), "regex": "^.*/bin$", "mode": "4755", "uname": "someone"},
    ])


@pytest.mark.parametrize("seed", range(12))
def test_trees_by_chance(tmp_path, seed):
    compare(tmp_path, [trees.make(tmp_path / "t", trees.chance(seed))])


def test_a_file_of_more_than_eight_gibibytes(tmp_path):  # case 11
    tree = tmp_path / "big"
    tree.mkdir()
    with (tree / "sparse").open("wb") as file:
        file.truncate(8 * 2**30 + 1)
    compare(tmp_path, [tree])


def test_images(tmp_path):
    trees.make(tmp_path / "t", trees.VECTOR)
    compare(tmp_path, [tmp_path / "t"])
    config = {
        "Labels": {"z": "<&>", "a": "é\n"}, "Env": ["PATH=/bin", "X=a&b"], "Cmd": ["/bin/sh"],
        "WorkingDir": "/", "Volumes": {"/v": {}, "/a b": {}}, "User": "1:2",
        "ExposedPorts": {"80/tcp": {}}, "StopSignal": "SIGTERM", "Entrypoint": [],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    subprocess.run(
        [referee.program(), "image", tmp_path / "image.json", "--arch", "arm64", "--created",
         "2026-07-15T00:00:00Z", tmp_path / "config.json", tmp_path / "upstream.json",
         tmp_path / "upstream.json"], check=True, capture_output=True)
    emit_image({"config": tmp_path / "config.json", "arch": "arm64",
                "created": "2026-07-15T00:00:00Z",
                "layers": [tmp_path / "ours", tmp_path / "ours"]}, tmp_path / "image.ours")
    assert (tmp_path / "image.ours").read_bytes() == (tmp_path / "image.json").read_bytes()


def test_what_upstream_refuses_is_refused(tmp_path):
    one = trees.make(tmp_path / "one", {"x": "a"})
    two = trees.make(tmp_path / "two", {"x": "bb"})
    assert referee.layers(tmp_path, [one, two]).returncode != 0
    with pytest.raises(Exception, match="different size"):
        emit_layer(referee.ours([one, two]), graph([one, two]), tmp_path / "ours")
