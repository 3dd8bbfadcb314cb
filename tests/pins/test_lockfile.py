"""Locks: whole, current, pleasant to diff (case 48)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.pins import lockfile, requirements
from apertus_image.pins.names import store_name

KINDS = ["wheels", "tools", "userland", "toolchain", "toolchain-go", "bundle", "bootstrap"]
REAL = Path(__file__).parents[2] / "nix/pins"
PIN = {"name": "a", "version": "1", "file": "a-1-py3-none-any.whl", "sha256": "0" * 64, "size": 1,
       "tags": ["py3-none-any"], "requires": []}


@pytest.fixture
def lock(tmp_path):
    """A lock on disk, and its requirements beside it."""
    wanted = tmp_path / "x.in"
    wanted.write_text("# why\none==1   # because\n\n two \n")
    content = {"format": 1, "kind": "wheels", "requirements": {"x.in": requirements.sha256(wanted)},
               "exclude_newer": "2026-07-15", "x86_64": [PIN], "aarch64": [PIN]}
    file = tmp_path / "x.json"
    lockfile.write(content, file)
    return file


def test_one_entry_a_line(lock):
    assert json.dumps(PIN) in [line.strip() for line in lock.read_text().splitlines()]
    assert lockfile.dumps(json.loads(lock.read_text())) == lock.read_text()


def test_a_whole_lock_loads(lock):
    assert lockfile.load(lock)["x86_64"] == [PIN]


def test_a_missing_lock_is_no_lock(tmp_path):
    with pytest.raises(UserError, match="missing") as error:
        lockfile.load(tmp_path / "x.json")
    assert "tools/lock x" in str(error.value)


@pytest.mark.parametrize("sha256", ["0" * 63, "g" * 64, "", None, 5])
def test_an_altered_hash_is_named(lock, sha256):
    content = json.loads(lock.read_text())
    content["x86_64"] = [PIN | {"sha256": sha256}]
    lockfile.write(content, lock)
    with pytest.raises(UserError, match="hash is malformed") as error:
        lockfile.load(lock)
    assert "x.json, x86_64, a" in str(error.value)


def test_changed_requirements_stop_and_say_so(lock):
    (lock.parent / "x.in").write_text("one==2\ntwo\n")
    with pytest.raises(UserError, match="older than its requirements") as error:
        lockfile.load(lock)
    assert error.value.next_step == "tools/lock x"


@pytest.mark.parametrize(
    "text", ["one==1\r\ntwo\r\n", "one==1\ntwo", "  one==1\n# new words\ntwo\n"])
def test_cosmetic_changes_are_none(lock, text):
    (lock.parent / "x.in").write_bytes(text.encode())
    lockfile.load(lock)


@pytest.mark.parametrize("text", ["one==1\u2028two\n", "one==1\n\u00a0two\n"])
def test_only_lines_and_blanks_that_nix_knows_are_cosmetic(lock, text):
    (lock.parent / "x.in").write_text(text)
    with pytest.raises(UserError, match="older than its requirements"):
        lockfile.load(lock)


def test_requirements_that_are_no_text(lock):
    (lock.parent / "x.in").write_bytes(b"one\xff\n")
    with pytest.raises(UserError, match="not UTF-8"):
        lockfile.load(lock)


def test_a_killed_write_leaves_the_old_lock(lock, monkeypatch):
    before = lock.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        lockfile.write({"format": 1}, lock)
    assert lock.read_bytes() == before
    assert sorted(path.name for path in lock.parent.iterdir()) == ["x.in", "x.json"]


@pytest.mark.parametrize(
    ("text", "what"), [("{", "not JSON"), ('{"format": 2}', "format"), ("[]", "format")])
def test_what_is_no_lock(tmp_path, text, what):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(UserError, match=what):
        lockfile.load(file)


def test_all_faults_are_told_at_once(lock):
    content = json.loads(lock.read_text())
    content["x86_64"] = [PIN | {"size": 0}, PIN | {"sha256": "x"}]
    lockfile.write(content, lock)
    with pytest.raises(UserError) as error:
        lockfile.load(lock)
    assert all(word in str(error.value) for word in ("size", "hash", "twice", "3 faults"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_projects_own_locks(kind):
    lock = lockfile.load(REAL / f"{kind}.json")
    pins = [pin for section in lock.values() if isinstance(section, list) for pin in section]
    names = {store_name(pin.get("file") or pin["path"].rsplit("/", 1)[1]) for pin in pins}
    assert pins and len(names) == len({pin["sha256"] for pin in pins})
    assert lockfile.dumps(lock) == (REAL / f"{kind}.json").read_text()


def test_wheels_agree_on_both_machines():
    lock = lockfile.load(REAL / "wheels.json")
    versions = [{pin["name"]: pin["version"] for pin in lock[m]} for m in ("x86_64", "aarch64")]
    assert (versions[0] == versions[1]) == (lock["differs"] == {})
    assert versions[0]["vllm"] == "0.25.1" and len(versions[0]) > 150


@pytest.mark.parametrize("kind", KINDS[2:])
def test_the_projects_debian_locks_are_of_one_release(kind):
    lock, userland = (lockfile.load(REAL / f"{name}.json") for name in (kind, "userland"))
    assert [lock[field] for field in ("suite", "release", "date")] == [
        userland[field] for field in ("suite", "release", "date")]
    assert lock["suite"] == "trixie"


def test_the_smoke_images_pins_are_in_the_locks():
    smoke = json.loads((REAL / "smoke.json").read_text())
    for kind, section, wanted in (("userland", "amd64", "debian"), ("userland", "arm64", "debian"),
                                  ("wheels", "x86_64", "wheels"), ("wheels", "aarch64", "wheels")):
        pinned = {pin["name"] for pin in lockfile.load(REAL / f"{kind}.json")[section]}
        assert not set(smoke[wanted]) - pinned
