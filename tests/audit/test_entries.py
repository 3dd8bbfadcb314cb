"""The first entry that differs is named, with the field, the tree and both values."""

from __future__ import annotations

import pytest
from apertus_image.audit.entries import first_difference
from apertus_image.oci.layer import Layer, digest
from apertus_image.oci.paths import LayerPath
from support.releases import as_stored

NAME = "0123456789abcdfghijklmnpqrsvwxyz-tree-x"


def layer(folder, change=lambda tree: None):
    tree = folder / NAME
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/a").write_text("one\n")
    (tree / "etc/b").write_text("two\n")
    (tree / "link").symlink_to("etc/a")
    change(tree)
    as_stored(tree)
    paths = (LayerPath(str(tree), (f"^{tree}", "")),)
    return Layer(*digest(paths), paths, {"created_by": "x"})


def relinked(tree):
    (tree / "link").unlink()
    (tree / "link").symlink_to("etc/b")


@pytest.mark.parametrize(("change", "entry", "field", "values"), [
    (lambda tree: (tree / "etc/b").write_text("twO\n"), "/etc/b", "content",
     ("sha256:27dd8ed44a83ff94d557f9fd0412ed5a8cbca69ea04922d88c01184a07300a5a", "at byte 2")),
    (lambda tree: (tree / "etc/a").write_text("longer\n"), "/etc/a", "size", ("4", "7")),
    (lambda tree: (tree / "etc/a").chmod(0o755), "/etc/a", "mode", ("0444", "0555")),
    (lambda tree: (tree / "etc/a").unlink(), "/etc/a", "presence", ("file", "absent")),
    (lambda tree: (tree / "etc/0").mkdir(), "/etc/0", "presence", ("absent", "dir")),
    (relinked, "/link", "target", ("etc/a", "etc/b")),
])
def test_a_change_is_named(tmp_path, change, entry, field, values):
    one, other = layer(tmp_path / "one"), layer(tmp_path / "other", change)
    assert one.digest != other.digest
    found = first_difference(one, other)
    assert (found.entry, found.field, found.tree) == (entry, field, "tree-x")
    assert values[0] in found.first and values[1] in found.second


def test_equal_layers_have_none(tmp_path):
    assert first_difference(layer(tmp_path / "one"), layer(tmp_path / "other")) is None


def test_a_store_elsewhere_is_read_where_it_lies(tmp_path):
    one = layer(tmp_path / "one")
    other = layer(tmp_path / "root/one", lambda tree: (tree / "etc/b").write_text("2\n"))
    moved = Layer(other.digest, other.size, one.paths, {})
    found = first_difference(
        one, moved, physical_other=lambda path: path.replace("/one/", "/root/one/"))
    assert (found.entry, found.tree) == ("/etc/b", "tree-x")
