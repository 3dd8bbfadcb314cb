"""The emitter against the real nix2container: the same JSON, byte for byte."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from apertus_image.errors import UserError
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


def test_owners_that_no_ustar_field_holds(tmp_path):
    tree = trees.make(tmp_path / "t", {"a": "", "b": "", "c": "", "d/e": "-> f", "n" * 150: ""})
    compare(tmp_path, [tree], [
        {"path": str(tree), "regex": "/a$", "uid": 8**7 - 1, "gid": 8**7},
        {"path": str(tree), "regex": "/b$", "uid": 2**31, "uname": "u" * 33, "gname": "g" * 32},
        {"path": str(tree), "regex": "/c$", "uname": "é" * 3, "gname": "x" * 200},
        {"path": str(tree), "regex": "/d", "uname": "ü/" * 20, "mode": "7777"},
        {"path": str(tree), "regex": "/n+$", "gid": 8**8},
    ])


@pytest.mark.parametrize("regex", ["/x$", "^.*[/$]x$", "x\\.?$", "(?i)/X$", "/(x|y)[^$]*$"])
def test_regular_expressions_mean_the_same(tmp_path, regex):
    names = ["x", "y/x", "y/x\n", "X", "a$x", "x."]
    tree = trees.make(tmp_path / "t", dict.fromkeys(names, ""))
    compare(tmp_path, [tree], [{"path": str(tree), "regex": regex, "mode": "600"}])


@pytest.mark.parametrize("regex", ["a++", "a**", "(?=x)", "(?!x)", "(a)\\1", "(", "[z-a]"])
def test_regular_expressions_that_both_refuse(tmp_path, regex):
    tree = trees.make(tmp_path / "t", {"x": ""})
    perms = [{"path": str(tree), "regex": regex, "mode": "600"}]
    assert referee.layers(tmp_path, [tree], perms).returncode != 0
    with pytest.raises(UserError, match="regular expression"):
        emit_layer(referee.ours([tree], perms), graph([tree]), tmp_path / "ours")


def test_links_cut_at_slashes_and_names_that_are_no_utf8(tmp_path):
    description = {f"links/{n}": "-> " + "t" * n + "/" * m + "z" * 20
                   for n in range(94, 102) for m in range(1, 5)}
    description |= {"links/é" + str(n): "-> " + "é" * n + "/" * 3 + "z" * 99 for n in range(44, 52)}
    description |= {"not\udcffutf8/" + "\udcfe" * n: "x" for n in (1, 90, 250)}
    compare(tmp_path, [trees.make(tmp_path / "t", description)])


def test_names_of_all_lengths_at_the_edges(tmp_path):
    description = {f"{n:03}/" + "d" * n + "/" + "f" * m: "x"
                   for n in (40, 95, 145, 148, 149, 150, 151, 152, 153, 200, 255)
                   for m in (1, 40, 92, 93, 94, 95, 98, 99, 100, 101, 255)}
    compare(tmp_path, [trees.make(tmp_path / "t", description)])


@pytest.mark.parametrize("seed", range(4))
def test_several_trees_by_chance(tmp_path, seed):
    paths = [trees.make(tmp_path / f"t{n}", {f"{n}/{name}": content for name, content
                                             in trees.chance(seed * 10 + n, 30).items()})
             for n in range(3)]
    compare(tmp_path, paths)


@pytest.mark.parametrize("seed", range(6))
def test_closures_with_references_and_layers_below(tmp_path, seed):
    """The order of store paths, paths that stay in the store, and what a lower layer has."""
    source = random.Random(seed)
    paths = [str(trees.make(tmp_path / f"{source.randrange(10**6):06}-{n}", {"f": str(n)}))
             for n in range(14)]
    nodes = []
    for n, path in enumerate(paths):
        references = source.sample(paths[: n + 1], source.randint(0, min(n, 4)))
        nodes.append({"path": path, "references": sorted(references)})  # itself among them
    nodes.sort(key=lambda node: node["path"])
    below = [node for node in nodes if node["path"] in source.sample(paths, 5)]
    for node in below:
        node["references"] = []
    spec = referee.ours(paths[-2:], history=HISTORY)
    (tmp_path / "rewrites.json").write_text(json.dumps(spec["rewrites"]))
    (tmp_path / "history.json").write_text(json.dumps(HISTORY))
    parents = []
    for name, content in (("below", below), ("above", nodes)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        (tmp_path / f"upstream-{name}").mkdir()
        result = tmp_path / f"upstream-{name}/layers.json"
        subprocess.run(
            [referee.program(), "layers-from-reproducible-storepaths", result,
             tmp_path / f"{name}.json", "--max-layers", "1",
             "--rewrites", tmp_path / "rewrites.json", "--history", tmp_path / "history.json",
             *(parent / "layers.json" for parent in parents)], check=True, capture_output=True)
        emit_layer({**spec, "layers": parents}, content, tmp_path / f"ours-{name}")
        assert (tmp_path / f"ours-{name}/layers.json").read_bytes() == result.read_bytes()
        parents = [tmp_path / f"ours-{name}"]


@pytest.mark.parametrize("history", [
    {}, {"comment": "", "created_by": "b"}, {"author": "a", "comment": "c", "created_by": "b",
     "created": "2026-07-15T00:00:00Z", "empty_layer": True}, {"empty_layer": False}])
def test_histories(tmp_path, history):
    tree = trees.make(tmp_path / "t", {"x": ""})
    result = referee.layers(tmp_path, [tree], None, history)
    assert result.returncode == 0, result.stderr
    emit_layer(referee.ours([tree], None, history), graph([tree]), tmp_path / "ours")
    assert (tmp_path / "ours/layers.json").read_bytes() == (tmp_path / "upstream.json").read_bytes()


def test_nothing_in_a_layer_and_no_layer_at_all(tmp_path):
    for name in ("empty", "file"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "t").mkdir() if name == "empty" else (folder / "t").write_text("at the root")
        compare(folder, [folder / "t"])
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    compare(nothing, [])
    (nothing / "config.json").write_text("{}")
    subprocess.run(
        [referee.program(), "image", nothing / "image.json", "--arch", "amd64", "--created",
         "0001-01-01T00:00:00Z", nothing / "config.json", nothing / "upstream.json"],
        check=True, capture_output=True)
    emit_image({"config": nothing / "config.json", "arch": "amd64",
                "created": "0001-01-01T00:00:00Z", "layers": [nothing / "ours"]},
               nothing / "image.ours")
    assert (nothing / "image.ours").read_bytes() == (nothing / "image.json").read_bytes()


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
        "ArgsEscaped": True,
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


@pytest.mark.parametrize(("one", "two", "what"), [
    ({"x": "a"}, {"x": "bb"}, "size"), ({"x": "a"}, {"x": ("a", True)}, "mode"),
    ({"x": "a"}, {"x": "-> a"}, "type"), ({"x/": ""}, {"x": "-> a"}, "type"),
    ({"x": "a"}, {"x/y": "a"}, "type"),
])
def test_what_upstream_refuses_is_refused(tmp_path, one, two, what):
    both = [trees.make(tmp_path / "one", one), trees.make(tmp_path / "two", two)]
    assert referee.layers(tmp_path, both).returncode != 0
    with pytest.raises(UserError, match=f"different {what}"):
        emit_layer(referee.ours(both), graph(both), tmp_path / "ours")


def test_what_upstream_lets_pass_gives_the_same_bytes(tmp_path):
    """Equal size or kind: the later source wins, in both. The image's gate refuses it."""
    one = trees.make(tmp_path / "one", {"f": "aa", "l": "-> a"})
    two = trees.make(tmp_path / "two", {"f": "bb", "l": "-> bcd"})
    compare(tmp_path, [one, two])


def test_the_record_is_what_nix2container_writes_now(tmp_path):
    """The record of the vectors, made again; config blobs apart, which its program does not
    print."""
    vectors = Path(__file__).with_name("vectors")
    code = ("import json, sys, pathlib, record; print(json.dumps(record.results("
            "pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))))")
    path = ":".join([str(vectors), *sys.path])
    result = subprocess.run([sys.executable, "-c", code, referee.program(), tmp_path],
                            capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})
    assert result.returncode == 0, result.stderr
    recorded = json.loads((vectors / "recorded.json").read_text())
    found = json.loads(result.stdout)
    assert found["layers"] == recorded["layers"]
    for name, image in recorded["images"].items():
        assert found["images"][name]["image"] == image["image"]
