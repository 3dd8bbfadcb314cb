"""The project's own waivers: narrow, readable, and for wheels that the locks have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apertus_image.wheel.waivers import dropped, parse
from support.wheels import waiver

PINS = Path(__file__).parents[2] / "nix/pins"
LOCK = json.loads((PINS / "wheels.json").read_text())
NAMES = {wheel["name"] for machine in ("x86_64", "aarch64") for wheel in LOCK[machine]}
WAIVERS = json.loads((PINS / "waivers.json").read_text())
RECORD_WAIVERS = json.loads((PINS / "record-waivers.json").read_text())


def test_a_pattern_crosses_folders_and_keeps_to_its_wheels():  # case 34
    waivers = parse([waiver("pkg/*", "one", "two", "three")])
    assert dropped(waivers, "two", "pkg/a/b.py") and dropped(waivers, "three", "pkg/x")
    assert not dropped(waivers, "one", "pkg/x")
    assert not dropped(waivers, "two", "other/pkg/x")


@pytest.mark.parametrize("entry", WAIVERS, ids=lambda entry: entry["path"])
def test_waivers_are_narrow_and_for_wheels_of_the_lock(entry):  # case 34
    assert set(entry) == {"path", "keep", "drop", "reason"}
    assert {entry["keep"], *entry["drop"]} <= NAMES
    assert entry["keep"] not in entry["drop"] and entry["drop"]
    assert entry["reason"].strip()
    assert not entry["path"].startswith(("*", "?", "["))


@pytest.mark.parametrize("entry", RECORD_WAIVERS, ids=lambda entry: entry["member"])
def test_exceptions_from_record_are_for_wheels_of_the_lock(entry):  # case 36
    assert set(entry) == {"wheel", "member", "sha256", "reason"}
    assert entry["wheel"] in NAMES
    assert len(entry["sha256"]) == 64 and int(entry["sha256"], 16) >= 0
    assert entry["reason"].strip()


@pytest.mark.parametrize("name", ["waivers.json", "record-waivers.json"])
def test_one_entry_a_line_in_order(name):
    text = (PINS / name).read_text()
    lines = [json.dumps(entry, ensure_ascii=False) for entry in json.loads(text)]
    assert text == "[\n  " + ",\n  ".join(lines) + "\n]\n"
    keys = [(e.get("wheel", ""), e.get("member", ""), e.get("path", "")) for e in json.loads(text)]
    assert keys == sorted(keys)
