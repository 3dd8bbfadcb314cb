"""Locks that something went wrong with: each fault by its place, none a traceback (case 48)."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.pins import lockfile
from apertus_image.pins.shape import faults

REAL = Path(__file__).parents[2] / "nix/pins"
KINDS = ["wheels", "tools", "userland", "toolchain", "toolchain-go", "bundle", "bootstrap", "go"]


# What says something to people alone.
WORDS = {"python", "cuda", "differs", "suite"}


def told(lock, name="x.json"):
    return [str(fault) for fault in faults(lock, Path(name))]


def real(kind):
    return json.loads((REAL / f"{kind}.json").read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_the_projects_locks_are_whole(kind):
    assert told(real(kind)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_taken_away_is_missed(kind):
    for field in set(real(kind)) - WORDS - {"format"}:
        lock = real(kind)
        del lock[field]
        (only,) = told(lock, f"{kind}.json")
        assert field in only


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [None, 5, "x", ["x"], {"x": 1}, []])
def test_whatever_is_in_the_place_of_anything_is_told(kind, value, tmp_path):
    for file in REAL.glob("*"):
        shutil.copy(file, tmp_path)
    file = tmp_path / f"{kind}.json"
    for field in set(real(kind)) - WORDS:
        if (field, value) in (("x86_64", []), ("aarch64", []), ("amd64", []), ("arm64", [])):
            continue  # a lock of nothing is whole
        file.write_text(json.dumps(real(kind) | {field: value}))
        with pytest.raises(UserError) as error:
            lockfile.load(file)
        assert f"{kind}.json" in str(error.value)


@pytest.mark.parametrize(("kind", "section"), [("wheels", "aarch64"), ("userland", "arm64")])
def test_every_field_of_a_pin_is_looked_at(kind, section):
    whole = real(kind)
    for field in whole[section][3]:
        for value in (None, 1.5, "", "a b", True, {}):
            lock = copy.copy(whole) | {section: [dict(pin) for pin in whole[section]]}
            lock[section][3][field] = value
            found = told(lock)
            assert found and all(f"x.json, {section}, " in each for each in found), (field, value)


@pytest.mark.parametrize("path", [
    "/etc/passwd", "pool/../../x.deb", "../pool/x.deb", "pool/a/../x.deb", "http://h/pool/x.deb"])
def test_a_package_lies_below_the_pool(path):
    lock = real("bootstrap")
    lock["amd64"][0]["path"] = path
    assert len(told(lock)) == 1 and "a path below a mirror" in told(lock)[0]


@pytest.mark.parametrize("file", ["../a-1-py3-none-any.whl", "a/b.whl", "a.tar.gz", ".whl\n"])
def test_a_wheel_is_a_file_name(file):
    lock = real("wheels")
    lock["x86_64"][0]["file"] = file
    assert len(told(lock)) == 1 and "a wheel's file name" in told(lock)[0]


@pytest.mark.parametrize("digest", ["sha256-short=", "0" * 64, None])
def test_a_vendor_hash(digest):
    lock = real("go")
    lock["nix2container"]["vendorHash"] = digest
    assert len(told(lock)) == 1
