"""tools/verify: its exit code and its words."""

from __future__ import annotations

import json

import pytest
from apertus_image.commands.verify import main
from apertus_image.oci.image import Image
from apertus_image.oci.layer import Layer, digest
from apertus_image.oci.paths import LayerPath
from click.testing import CliRunner
from support import trees
from support.published import flip


@pytest.fixture
def image(tmp_path):
    """(image JSON, a file of its one layer)."""
    tree = trees.make(tmp_path / "tree", {"etc/x": "text\n"})
    path = LayerPath(str(tree), (f"^{tree}", ""), ())
    layer = Layer(*digest([path]), (path,), {"created_by": "apertus-image: all"})
    file = tmp_path / "image.json"
    file.write_text(Image.make({}, [layer], "amd64", "2026-07-15T00:00:00Z").json())
    return file, tree / "etc/x"


def test_it_exits_by_what_it_found(image):
    file, inside = image
    same = CliRunner().invoke(main, [str(file), "--full"])
    assert same.exit_code == 0 and same.output.startswith("same ") and "(all)" in same.output
    flip(inside, 0)
    found = CliRunner().invoke(main, [str(file), "--full"])
    assert found.exit_code == 1 and found.output.startswith("differs ")
    for word in ("where:", "expected:", "got:"):
        assert word in found.output
    unread = CliRunner().invoke(main, [str(file)])
    assert unread.exit_code == 0 and unread.output.startswith("not checked")


def test_json_says_the_same(image):
    file, inside = image
    flip(inside, 0)
    found = CliRunner().invoke(main, [str(file), "--full", "--json"])
    told = json.loads(found.stdout)
    assert found.exit_code == 1 and told["standing"] == "differs" and told["mode"] == "full"
    assert told["items"][0]["standing"] == "differs"


@pytest.mark.parametrize(("options", "mode"), [
    ((), "quick"), (("--once",), "once"), (("--full",), "full"),
    (("--full", "--once"), "full"), (("--once", "--full"), "full"),
])
def test_the_fullest_check_asked_for_is_made(image, options, mode):
    found = CliRunner().invoke(main, [str(image[0]), *options, "--json"])
    assert json.loads(found.stdout)["mode"] == mode


def test_an_image_that_is_not_there_is_told_as_that(image, tmp_path):
    file, _ = image
    layout = tmp_path / "layout"
    (layout / "blobs").mkdir(parents=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (layout / "index.json").write_text('{"schemaVersion": 2, "manifests": []}')
    for given, said in ((tmp_path / "none", "no such image"),
                        (layout, "--image takes an image JSON")):
        result = CliRunner().invoke(main, [str(file), "--image", str(given)])
        assert result.exit_code == 1 and f"error: {said}" in result.stderr
    assert CliRunner().invoke(main, [str(file), "--image", str(file)]).exit_code == 0


def test_an_image_of_a_store_below_a_directory_is_found_by_its_link(image, tmp_path):
    file, _ = image
    (tmp_path / "own/nix/store").mkdir(parents=True)
    file.rename(tmp_path / "own/nix/store/image.json")
    (tmp_path / "result").symlink_to("/nix/store/image.json")
    words = [str(tmp_path / "own/nix/store/image.json"), "--image", str(tmp_path / "result")]
    assert CliRunner().invoke(main, words).exit_code == 1
    assert CliRunner().invoke(main, [*words, "--store", str(tmp_path / "own")]).exit_code == 0


def test_what_is_not_there_is_one_clear_error(tmp_path):
    result = CliRunner().invoke(main, [str(tmp_path / "none.sqsh")])
    assert result.exit_code == 1 and "no such artefact" in result.output
    assert "Traceback" not in result.output
