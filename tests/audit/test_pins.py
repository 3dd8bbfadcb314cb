"""Pins of two revisions: each kind of change is said once, in words, and what must stop stops."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from apertus_image.audit.pins import compare
from apertus_image.errors import UserError
from support.images import PROJECT
from support.revisions import lock, replace

OTHER = "5" * 64


@pytest.fixture
def sides(tmp_path):
    """Two copies of this project's nix/."""
    for name in ("old", "new"):
        shutil.copytree(PROJECT / "nix", tmp_path / name / "nix")
    return tmp_path / "old", tmp_path / "new"


def said(sides):
    """(group, kind, name, old, new, where, notes, whether it stops)."""
    return [(each.group, each.kind, each.name, each.old, each.new, each.where, each.notes,
             each.stop) for each in compare(*sides)]


def pin(name: str, section: str, wanted: str, **change):
    """A change of one pin, in the sections of one lock."""
    def apply(folder: Path) -> None:
        lock(folder, name, lambda data: [
            each.update(change) for one in section.split() for each in data[one]
            if each["name"] == wanted])
    return apply


def version(name: str, section: str, wanted: str) -> str:
    data = json.loads((PROJECT / f"nix/pins/{name}.json").read_text())
    return next(each["version"] for each in data[section] if each["name"] == wanted)


def test_nothing_changed_nothing_said(sides):
    assert said(sides) == []


def test_a_version_that_moved_for_both_machines_is_said_once(sides):
    pin("wheels", "x86_64 aarch64", "click", version="99", sha256=OTHER)(sides[1])
    assert said(sides) == [("wheel", "moved", "click", version("wheels", "x86_64", "click"), "99",
                            ("wheels", "x86_64", "aarch64"), (), False)]


def test_a_version_that_moved_for_one_machine_says_which(sides):
    pin("wheels", "aarch64", "click", version="99", sha256=OTHER)(sides[1])
    assert said(sides)[0][5] == ("wheels", "aarch64")


@pytest.mark.parametrize(("name", "section", "wanted", "earlier", "group"), [
    ("wheels", "x86_64", "click", "0.1", "wheel"),
    ("userland", "amd64", "bash", "1:0~0", "userland"),
    ("toolchain", "amd64", "bash", "0.1-1", "toolchain"),
])
def test_going_back_in_time_is_flagged(sides, name, section, wanted, earlier, group):
    if name == "userland":  # an epoch makes it the later one
        pin(name, section, wanted, version=earlier, sha256=OTHER)(sides[1])
        assert said(sides)[0][6] == ()
        earlier = "0~0"
    pin(name, section, wanted, version=earlier, sha256=OTHER)(sides[1])
    assert said(sides)[0][:2] == (group, "moved")
    assert said(sides)[0][6] == ("goes back in time",)


@pytest.mark.parametrize(("name", "section", "wanted"), [
    ("wheels", "x86_64", "click"), ("userland", "arm64", "bash"), ("toolchain", "amd64", "jq"),
    ("toolchain-go", "amd64", None), ("bootstrap", "amd64", None),
])
def test_another_hash_at_one_version_stops(sides, name, section, wanted):
    if wanted is None:
        data = json.loads((PROJECT / f"nix/pins/{name}.json").read_text())
        wanted = data[section][0]["name"]
    pin(name, section, wanted, sha256=OTHER)(sides[1])
    found = said(sides)
    assert len(found) == 1 and found[0][1:3] == ("hash changed", wanted) and found[0][7]
    assert found[0][4] == OTHER and "other bytes at version" in found[0][6][0]


def test_added_and_removed(sides):
    lock(sides[1], "wheels", lambda data: data["x86_64"].append(
        data["x86_64"].pop(0) | {"name": "zz-new", "version": "1"}))
    first = json.loads((PROJECT / "nix/pins/wheels.json").read_text())["x86_64"][0]
    assert [each[1:5] for each in said(sides)] == [
        ("removed", first["name"], first["version"], ""), ("added", "zz-new", "", "1")]


def test_the_order_of_pins_says_nothing(sides):
    lock(sides[1], "userland", lambda data: data["amd64"].reverse())
    assert said(sides) == []


@pytest.mark.parametrize(("name", "key", "value", "group", "back"), [
    ("wheels", "exclude_newer", "2026-07-01", "wheel", True),
    ("wheels", "exclude_newer", "2026-12-31", "wheel", False),
    ("userland", "date", "Sat, 21 Nov 2020 09:15:44 UTC", "userland", True),
    ("userland", "release", "13.9", "userland", False),
    ("wheels", "cuda", "13.1", "wheel", False),
    ("toolchain", "date", "Sat, 21 Nov 2099 09:15:44 UTC", "toolchain", False),
    ("go", "nix2container", {"name": "n", "vendorHash": "v"}, "toolchain", False),
    ("bootstrap", "tree", {"x86_64": OTHER, "aarch64": OTHER}, "toolchain", False),
])
def test_the_heads_of_locks(sides, name, key, value, group, back):
    lock(sides[1], name, lambda data: data.update({key: value}))
    found = said(sides)
    assert [each[:3] for each in found] == [(group, "changed", f"{name}.json: {key}")]
    assert found[0][6] == (("goes back in time",) if back else ())


def test_requirements_are_compared_by_what_they_ask(sides):  # case 48
    file = sides[1] / "nix/pins/requirements.in"
    file.write_bytes(b"# a comment\r\n" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert said(sides) == []
    file.write_bytes(file.read_bytes() + b"rich==1\r\n")
    assert [each[:3] + each[5:6] for each in said(sides)] == [
        ("requirements", "added", "rich==1", ("requirements.in",))]


def test_waivers_with_their_reasons(sides):
    replace(sides[1] / "nix/pins/waivers.json", "stray build scripts", "scripts")
    found = said(sides)
    assert len(found) == 1 and found[0][:2] == ("waiver", "changed")
    assert "stray build scripts" in found[0][3] and found[0][5] == ("waivers.json",)


def test_a_patch_with_its_files_and_hashes(sides):
    folder = sides[1] / "nix/patches/vllm/help-without-a-gpu"
    data = json.loads((folder / "patch.json").read_text())
    path, hashes = next(iter(data["files"].items()))
    was = hashes["after"]
    hashes["after"] = OTHER
    (folder / "patch.json").write_text(json.dumps(data))
    assert [each[1] for each in said(sides)] == ["hash changed"] and said(sides)[0][7]
    replace(folder / "patch.diff", "\n+", "\n+ ")
    found = said(sides)
    assert [each[:3] for each in found] == [("patch", "changed", "vllm/help-without-a-gpu")]
    before = hashes["before"][:12]
    assert found[0][6] == (f"{path}: {before} -> {was[:12]} was, {before} -> {OTHER[:12]} is",)
    assert not found[0][7]


def test_patches_that_came_went_or_changed_places(sides):
    file = sides[1] / "nix/patches/series.json"
    series = json.loads(file.read_text())
    first, second = series["vllm"]
    file.write_text(json.dumps(series | {"vllm": [second, first]}))
    assert [each[:3] for each in said(sides)] == [("patch", "changed", "order for vllm")]
    file.write_text(json.dumps(series | {"vllm": [first]}))
    found = said(sides)
    assert [each[:3] for each in found] == [("patch", "removed", second)] and found[0][6]


def test_the_code_of_the_build_is_named_and_other_code_is_not(sides):
    for folder in sides:
        for room in ("wheel", "audit"):
            (folder / f"tools/apertus_image/{room}").mkdir(parents=True)
    replace(sides[1] / "nix/groups.nix", "libraries", "rest")
    for room in ("wheel", "audit"):
        (sides[1] / f"tools/apertus_image/{room}/x.py").write_text("x = 1\n")
    assert [(each[2], each[6]) for each in said(sides)] == [
        ("nix", ("groups.nix",)), ("tools/apertus_image/wheel", ("x.py",))]


def test_a_lock_that_is_no_json_is_one_error(sides):
    (sides[1] / "nix/pins/wheels.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        said(sides)
