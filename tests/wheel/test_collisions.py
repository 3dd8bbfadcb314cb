"""Paths that wheels of different groups both bring, found in their RECORD files."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from apertus_image.errors import UserError
from apertus_image.wheel.collisions import build, shared_paths
from support.wheels import make, waiver


def check(tmp_path, groups, waivers=()):
    """Run the check over groups of pins; give the lines of its output."""
    out = tmp_path / "out"
    out.unlink(missing_ok=True)
    build({"wheels": [pin for group in groups for pin in group], "waivers": list(waivers),
           "groups": {f"g{n}": [pin["name"] for pin in group]
                      for n, group in enumerate(groups)}}, out)
    return out.read_text().splitlines()


def refusal(tmp_path, groups, waivers=()):
    with pytest.raises(UserError) as error:
        check(tmp_path, groups, waivers)
    assert not (tmp_path / "out").exists()
    return str(error.value)


def pair(tmp_path, path, left, right):
    return [make(tmp_path, "one", {path: left}), make(tmp_path, "two", {path: right})]


def both(pins):
    """The same wheels, in one group and in two, in either order."""
    for one, two in itertools.permutations(pins):
        yield [[one, two]]
        yield [[one], [two]]


def test_different_bytes_are_refused_wherever_the_wheels_are(tmp_path):  # case 34
    for groups in both(pair(tmp_path, "lib/libthing.so", b"12", b"13")):
        said = refusal(tmp_path, groups)
        assert "lib/libthing.so: different bytes in one, two" in said
        assert "waivers.json" in said


def test_equal_bytes_are_fine_in_one_group_alone(tmp_path):  # case 34
    one, two = pair(tmp_path, "ns/__init__.py", b"", b"")
    assert check(tmp_path, [[one, two]]) == ["ns/__init__.py: one, two"]
    assert check(tmp_path, [[two, one]]) == ["ns/__init__.py: one, two"]
    assert "ns/__init__.py: the same bytes in groups of their own" in refusal(
        tmp_path, [[one], [two]])


def test_a_waiver_lets_its_path_pass_and_no_other(tmp_path):  # case 34
    pins = pair(tmp_path, "LICENSE", b"MIT", b"BSD")
    for groups in both(pins):
        assert check(tmp_path, groups, [waiver("LICENSE", "one", "two")]) == ["LICENSE: one"]
    pins = [make(tmp_path, "one", {"LICENSE": "1", "NOTICE": "1"}),
            make(tmp_path, "two", {"LICENSE": "2", "NOTICE": "2"})]
    said = refusal(tmp_path, [pins], [waiver("LICENSE", "one", "two")])
    assert "NOTICE: different bytes" in said and "LICENSE: different" not in said


def test_a_waiver_for_a_wheel_without_the_path_drops_nothing(tmp_path):  # case 34
    pins = [*pair(tmp_path, "LICENSE", b"1", b"2"), make(tmp_path, "three", {"c.py": ""})]
    said = refusal(tmp_path, [pins], [waiver("LICENSE", "three", "two")])
    assert "LICENSE: different bytes in one, two" in said


def test_a_waiver_that_nothing_needs_is_refused(tmp_path):  # case 34
    pins = pair(tmp_path, "LICENSE", b"MIT", b"BSD")
    waivers = [waiver("LICENSE", "one", "two"), waiver("old/*", "one", "two")]
    assert "old/*: a waiver for one that no path needs" in refusal(tmp_path, [pins], waivers)


def test_a_waiver_that_drops_what_the_kept_wheel_lacks_is_refused(tmp_path):  # case 34
    pins = [make(tmp_path, "one", {"pkg/a.py": "1"}),
            make(tmp_path, "two", {"pkg/a.py": "2", "pkg/LICENSE": "MIT"})]
    said = refusal(tmp_path, [pins], [waiver("pkg/*", "one", "two")])
    assert "pkg/LICENSE: the waiver pkg/* would drop it from two" in said
    assert "one does not bring it" in said and "1 faults" in said
    assert check(tmp_path, [pins], [waiver("pkg/*.py", "one", "two")]) == ["pkg/a.py: one"]


def test_the_entry_to_add_is_told_and_helps(tmp_path):  # case 34
    one, two = pair(tmp_path, "ns/__init__.py", b"", b"")
    said = refusal(tmp_path, [[one], [two]])
    entry = json.loads(re.search(r"add ({.*})", said)[1])
    assert check(tmp_path, [[one], [two]], [entry]) == ["ns/__init__.py: one"]


def test_launchers_are_compared_too(tmp_path):  # case 34
    points = "[console_scripts]\nlaunch = {}:main\n"
    one, same, other = (
        make(tmp_path, name, {}, entry_points=points.format(module))
        for name, module in [("one", "pkg"), ("same", "pkg"), ("other", "another")]
    )
    assert check(tmp_path, [[one, same]]) == ["../../../bin/launch: one, same"]
    said = refusal(tmp_path, [[one, other]])
    assert "../../../bin/launch: different bytes in one, other" in said


@pytest.mark.parametrize("content", [b"<html>", b"PK\5\6" + bytes(18)], ids=["text", "empty"])
def test_a_file_that_is_no_wheel(tmp_path, content):
    pin = make(tmp_path, "one", {"a": "1"})
    (tmp_path / pin["file"]).write_bytes(content)
    said = refusal(tmp_path, [[pin]])
    assert "not a wheel" in said and pin["file"] in said


def test_a_waiver_for_wheels_that_are_not_here_is_not_told(tmp_path):
    pins = pair(tmp_path, "LICENSE", b"MIT", b"BSD")
    waivers = [waiver("LICENSE", "one", "two"), waiver("old/*", "one", "other-machines")]
    assert check(tmp_path, [pins], waivers) == ["LICENSE: one"]


def test_all_faults_are_told_together(tmp_path):
    pins = [make(tmp_path, "one", {"a": "1", "b": "1"}),
            make(tmp_path, "two", {"a": "2", "b": "2"})]
    said = refusal(tmp_path, [pins])
    assert "2 faults" in said and "a: different" in said and "b: different" in said


@pytest.mark.parametrize(("left", "right", "shared"), [
    ("pkg/x", "two-1.0.data/purelib/pkg/x", "pkg/x"),
    ("pkg/x", "two-1.0.data/platlib/pkg/x", "pkg/x"),
    ("one-1.0.data/scripts/x", "two-1.0.data/data/bin/x", "../../../bin/x"),
    ("one-1.0.data/data/share/x", "two-1.0.data/data/share/x", "../../../share/x"),
])
def test_paths_are_compared_where_they_are_installed(tmp_path, left, right, shared):  # case 34
    pins = [make(tmp_path, "one", {left: "1"}), make(tmp_path, "two", {right: "2"})]
    assert list(shared_paths(pins)) == [shared]


def test_headers_lie_in_a_folder_for_each_wheel(tmp_path):
    pins = [make(tmp_path, "one", {"one-1.0.data/headers/x.h": "1"}),
            make(tmp_path, "two", {"two-1.0.data/headers/x.h": "2"})]
    assert shared_paths(pins) == {}


def test_shipped_bytecode_is_not_compared(tmp_path):  # trap 14: it is not installed
    name = "ns/__pycache__/m.cpython-313.pyc"
    assert shared_paths(pair(tmp_path, name, b"1", b"2")) == {}


def test_a_package_that_vendors_a_dist_info_keeps_its_own_record(tmp_path):
    vendored = "one/_vendor/dep-1.0.dist-info/RECORD"
    pins = [make(tmp_path, "one", {vendored: "x,,\n", "same": "1"}),
            make(tmp_path, "two", {"same": "2"})]
    assert set(shared_paths(pins)) == {"same"}
