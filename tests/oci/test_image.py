"""Images: architecture from the target, dates in the config only, Go's JSON."""

from __future__ import annotations

import hashlib
import json

import pytest
from apertus_image.errors import UserError
from apertus_image.oci import gojson
from apertus_image.oci.closure import by_popularity
from apertus_image.oci.emit import closure, emit_layer
from apertus_image.oci.image import Image
from apertus_image.oci.layer import Layer, canonical_history
from apertus_image.oci.paths import LayerPath, Perm
from apertus_image.tree.machine import MACHINES, machine
from support import trees

LAYER = Layer("sha256:" + "1" * 64, 1024, (LayerPath("/nix/store/a"),), {"created_by": "x"})
OTHER = Layer("sha256:" + "2" * 64, 2048, (LayerPath("/nix/store/b"),), {})


def image(**changes):
    fields = {"config": {"Env": ["A=1"]}, "layers": [LAYER, OTHER], "architecture": "amd64",
              "created": "2026-07-15T00:00:00Z"}
    return Image.make(**(fields | changes))


def test_the_image_id_is_the_config_blobs_digest():
    one = image()
    blob = one.config_blob()
    assert one.image_id == "sha256:" + hashlib.sha256(blob).hexdigest()
    config = json.loads(blob)
    assert config["rootfs"]["diff_ids"] == [LAYER.digest, OTHER.digest]
    assert list(config) == ["created", "architecture", "os", "config", "rootfs", "history"]


def test_a_date_changes_the_config_and_no_layer():  # case 9
    one, two = image(), image(created="2027-01-01T00:00:00Z")
    assert one.image_id != two.image_id
    assert [layer.digest for layer in one.layers] == [layer.digest for layer in two.layers]


def test_the_architecture_is_the_targets():  # case 6
    assert json.loads(image(architecture="arm64").config_blob())["architecture"] == "arm64"
    assert {m.name: m.oci for m in MACHINES.values()} == {"x86_64": "amd64", "aarch64": "arm64"}
    for name in ("aarch64", "arm64", "aarch64-linux"):
        assert machine(name) is MACHINES["aarch64"]


@pytest.mark.parametrize("name", ["", "arm", "armv7l", "riscv64", "AMD64"])
def test_an_unknown_architecture_is_an_error(name):  # case 6
    with pytest.raises(UserError) as error:
        machine(name)
    assert "x86_64, aarch64" in str(error.value)


def test_a_layer_is_added_once_where_it_comes_first():
    again = Layer(LAYER.digest, LAYER.size, (), {"created_by": "another"})
    assert image(layers=[LAYER, OTHER, again]).layers == (LAYER, OTHER)


def test_json_round_trip(tmp_path):
    file = tmp_path / "image.json"
    file.write_text(image().json())
    assert Image.load(file).json() == image().json()
    assert Image.load(file).image_id == image().image_id


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"layers": 3}'])
def test_what_is_no_image(tmp_path, text):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(UserError, match="not an image JSON"):
        Image.load(file)


def test_an_unknown_config_field_is_refused():
    with pytest.raises(UserError, match="Enviroment"):
        image(config={"Enviroment": []})


@pytest.mark.parametrize(("field", "value"), [
    ("Env", {"A": "1"}), ("Env", [1]), ("Labels", ["a"]), ("Labels", {"a": 1}), ("User", 0),
    ("ArgsEscaped", "true"), ("WorkingDir", ["/"]), ("Cmd", "/bin/sh"),
])
def test_a_config_field_of_the_wrong_type_is_refused(field, value):
    with pytest.raises(UserError, match=field):
        image(config={field: value})


@pytest.mark.parametrize("created", ["", "today", "2026-07-15", "2026-13-01T00:00:00Z",
                                     "2026-07-15T00:00:00+02:00", "2026-07-15T00:00:00.5Z"])
def test_a_malformed_date_is_refused(created):
    with pytest.raises(UserError, match="creation date"):
        image(created=created)


def test_all_problems_of_an_image_are_told_at_once():
    with pytest.raises(UserError) as error:
        image(config={"Enviroment": [], "User": 0}, created="never")
    assert all(word in str(error.value) for word in ("3 problems", "Enviroment", "User", "never"))


def test_unknown_metadata_of_a_layer_is_refused():
    with pytest.raises(UserError, match="createdBy"):
        canonical_history({"createdBy": "x"})


@pytest.mark.parametrize("rule", [{"mode": "0o644"}, {"mode": "rw"}, {"mode": "00000644"},
                                  {"uid": -1}, {"gid": -1}])
def test_malformed_rules_are_refused(rule):
    with pytest.raises(UserError, match="perms rule /x"):
        Perm.parse({"regex": "/x", **rule})


def test_go_escapes():
    assert gojson.compact({"a": "<&>\u2028é\n\"\x01"}) == (
        '{"a":"\\u003c\\u0026\\u003e\\u2028é\\n\\"\\u0001"}')
    assert gojson.indented({"a": [], "b": [1], "c": None}) == (
        '{\n\t"a": [],\n\t"b": [\n\t\t1\n\t],\n\t"c": null\n}')


def test_popularity_orders_paths():
    graph = [
        {"path": "/a", "references": ["/a", "/libc"]}, {"path": "/b", "references": ["/libc"]},
        {"path": "/libc", "references": []}, {"path": "/z", "references": []},
    ]
    assert by_popularity(graph) == ["/libc", "/z", "/b", "/a"]


def test_fourteen_layers_each_above_all_before(tmp_path):  # case 5
    above, seen = [], []
    for number in range(14):
        tree = trees.make(tmp_path / f"t{number}", {f"f{number}": str(number)})
        seen.append({"path": str(tree), "references": []})
        spec = {"rewrites": [], "perms": [], "history": {}, "layers": [str(p) for p in above]}
        out = tmp_path / f"layer{number}"
        emit_layer(spec, seen, out)
        layers = json.loads((out / "layers.json").read_text())
        assert [path["path"] for path in layers[0]["paths"]] == [str(tree)]
        above.append(out)
    sizes = [(p / "layers.json").stat().st_size for p in above]
    assert max(sizes) < 2 * min(sizes)  # no list grows with the chain


def test_reference_graphs_as_nix_writes_them():
    text = "/nix/store/a\n\n2\n/nix/store/a\n/nix/store/b\n/nix/store/b\n\n0\n"
    assert closure([text]) == [
        {"path": "/nix/store/a", "references": ["/nix/store/a", "/nix/store/b"]},
        {"path": "/nix/store/b", "references": []},
    ]
