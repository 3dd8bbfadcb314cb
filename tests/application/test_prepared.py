"""What may be a place in the image, and what names an image can hold."""

from __future__ import annotations

import pytest
from apertus_image.application import prepared
from apertus_image.errors import UserError


@pytest.mark.parametrize("at", ["/opt/nemo-rl", "/workspace", "/srv/a.b_c+d@1/x"])
def test_a_plain_path_is_a_place(at):
    assert prepared.checked(at) == at


@pytest.mark.parametrize("at", [
    "", "/", "opt/x", "/opt/x/", "/opt//x", "/opt/../etc", "/opt/./x", "/opt/.hidden", "/opt/a b",
    "/opt/x\n", "/opt/.wh.x", "/opt/é"])
def test_what_is_no_plain_path_is_refused(at):
    with pytest.raises(UserError, match="no plain absolute path"):
        prepared.checked(at)


@pytest.mark.parametrize("at", ["/opt/apertus", "/opt/apertus/lib", "/tmp/x", "/nix/store", "/dev"])
def test_a_place_that_is_mounted_over_or_the_images_own_is_refused(at):
    with pytest.raises(UserError, match="is taken"):
        prepared.checked(at)
    assert prepared.checked("/opt/apertus-more") == "/opt/apertus-more"


def test_a_bare_tree_goes_to_the_usual_place(tmp_path):
    (tmp_path / "apertus-source.json").write_text("the repository's own file")
    assert prepared.read(tmp_path) == (tmp_path, "/opt/nemo-rl")


def test_what_was_prepared_is_read_back(tmp_path):
    tree = prepared.write(tmp_path / "source", "/opt/mine")
    assert prepared.read(tmp_path / "source") == (tree, "/opt/mine")


@pytest.mark.parametrize("mark", ["{", "[]", '{"format": 2, "at": "/opt/x"}', '{"format": 1}'])
def test_a_mark_that_is_not_understood_is_refused(tmp_path, mark):
    prepared.write(tmp_path / "source", "/opt/mine")
    (tmp_path / "source/apertus-source.json").write_text(mark)
    with pytest.raises(UserError, match="mark is not understood"):
        prepared.read(tmp_path / "source")


@pytest.mark.parametrize(("path", "why"), [
    ("../x", "leave its folder"), ("a/../../x", "leave its folder"), ("/x", "leave its folder"),
    ("a/.git/config", "git's own"), ("a/.GIT/hooks/x", "git's own"), (".wh.x", "deleted file"),
    ("a/.wh..wh..opq", "deleted file"), ("new\nline", "control character"),
    ("n" * 256, "more than 255"), ("d/" * 2100 + "x", "more than 4095"),
    ("not-\udcff-utf8", "not UTF-8")])
def test_names_that_an_image_cannot_hold_are_refused(path, why):
    fault, = prepared.faults([("fine", None), (path, None)], "/opt/x")
    assert why in str(fault) and fault.where == repr(path)


@pytest.mark.parametrize("paths", [
    [("a", "../../etc"), ("a/passwd", None)], [("a/passwd", None), ("a", "../../etc")],
    [("a", None), ("a", None)]])
def test_a_link_with_something_below_it_is_refused(paths):
    fault, = prepared.faults(paths, "/opt/x")
    assert "one path twice" in str(fault)


def test_odd_names_and_links_that_linux_holds_pass():
    entries = [("README", None), ("readme", None), ("a b/é", None), ("-x", None), (".hidden", None),
               (".github/x", None), (".gitignore", None), ("abs", "/etc/x"), ("out", "../../../x")]
    assert list(prepared.faults(entries, "/opt/x")) == []


@pytest.mark.parametrize("target", ["", "t" * 5000])
def test_a_link_without_a_usable_target_is_refused(target):
    fault, = prepared.faults([("l", target)], "/opt/x")
    assert "no usable target" in str(fault)
