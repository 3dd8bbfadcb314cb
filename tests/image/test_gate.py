"""The gate: every path in one layer, every bound kept, or no name for the image."""

from __future__ import annotations

import json

import pytest
from apertus_image.errors import UserError
from apertus_image.image.gate import build
from apertus_image.image.identity import content_id
from apertus_image.tree import manifest
from apertus_image.tree.manifest import Entry


def file(path, size=1, sha256="0"):
    return Entry(path, "file", "wheel:x", size, sha256 * 64, False)


@pytest.fixture
def gate(tmp_path):
    """Gives a spec for layers of (name, entries, size, overlay)."""

    def make(*layers, **limits):
        described, built = [], []
        for number, (name, entries, size, overlay) in enumerate(layers):
            path = f"/nix/store/{number}-{name}"
            where = tmp_path / f"{number}.manifest"
            manifest.write(entries, where)
            described.append({"name": name, "overlay": overlay,
                              "trees": [{"path": path, "manifest": str(where)}]})
            built.append({"size": size, "paths": [{"path": path}]})
        image = tmp_path / "image.json"
        image.write_text(json.dumps({"layers": built}))
        return {"image": str(image), "layers": described,
                "limits": {"bytes": 1000, "layers": 3} | limits}

    return make


def refused(spec, tmp_path):
    with pytest.raises(UserError) as error:
        build(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    return str(error.value)


def test_a_good_image_keeps_its_bytes(gate, tmp_path):
    folder = Entry("/etc", "dir", "deb:a")
    spec = gate(("a", [folder, file("/etc/a")], 9, False),
                ("b", [folder, file("/etc/b")], 9, False),
                ("o", [folder, file("/etc/a", sha256="1")], 9, True))
    build(spec, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "image.json").read_bytes()


@pytest.mark.parametrize("other", [file("/x"), file("/x", sha256="1"), Entry("/x", "dir", "d"),
                                   Entry("/x", "link", "d", target="y")])
def test_a_path_in_two_layers_names_both(gate, tmp_path, other):
    said = refused(gate(("a", [file("/x")], 9, False), ("b", [other], 9, False)), tmp_path)
    assert "/x" in said and "layer a" in said and "layer b" in said and "waivers.json" in said


def test_an_overlay_replaces_files_only(gate, tmp_path):
    said = refused(gate(("a", [Entry("/x", "link", "d", target="y")], 9, False),
                        ("o", [file("/x")], 9, True)), tmp_path)
    assert "two trees bring the same path" in said


def test_an_overlay_may_add_files(gate, tmp_path):
    build(gate(("a", [file("/x")], 9, False), ("o", [file("/new")], 9, True)), tmp_path / "out")


def test_bounds(gate, tmp_path):
    said = refused(gate(("a", [file("/x", 600), file("/y", 600)], 1300, False)), tmp_path)
    assert "too large" in said and "1300" in said
    build(gate(("a", [file("/x", 1200)], 1300, False)), tmp_path / "out")
    (tmp_path / "out").unlink()
    layers = [(str(n), [file(f"/{n}")], 9, False) for n in range(4)]
    assert "too many layers" in refused(gate(*layers), tmp_path)


def test_a_layer_that_lacks_a_tree(gate, tmp_path):
    spec = gate(("a", [file("/x")], 9, False), ("b", [file("/y")], 9, False))
    spec["layers"][1]["trees"][0]["path"] = "/nix/store/another"
    assert "layer b" in refused(spec, tmp_path)
    spec["layers"].pop()
    assert "no layer" in refused(spec, tmp_path)


def test_all_faults_at_once(gate, tmp_path):
    said = refused(gate(("a", [file("/x"), file("/y")], 9, False),
                        ("b", [file("/x"), file("/y")], 2000, False)), tmp_path)
    assert "3 faults" in said


def test_the_identity_is_of_content_and_order(tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    manifest.write([file("/x")], one)
    manifest.write([file("/y")], two)
    assert content_id([one, two]) != content_id([two, one])
    before = content_id([one])
    manifest.write([file("/x", sha256="1")], one)
    assert content_id([one]) != before


def test_manifests_round_trip_in_byte_order(tmp_path):
    entries = [file("/b"), Entry("/a\udcff", "link", "d", target="é"), Entry("/a", "dir", "d"),
               file("/a.b"), file("/a/c")]
    manifest.write(entries, tmp_path / "m")
    assert [e.path for e in manifest.read(tmp_path / "m")] == ["/a", "/a.b", "/a/c", "/a\udcff",
                                                              "/b"]
    assert set(manifest.read(tmp_path / "m")) == set(entries)


def test_a_scan_sees_what_is_there(tmp_path):
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d/f").write_text("x")
    (root / "d/f").chmod(0o755)
    (root / "l").symlink_to("./d//f")
    found = {e.path: e for e in manifest.scan(root, "here", origins={"/d/f": "deb:x"})}
    assert found["/d/f"].executable and found["/d/f"].size == 1 and found["/d/f"].origin == "deb:x"
    assert found["/l"].target == "./d//f" and found["/d"].type == "dir"
