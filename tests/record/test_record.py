"""The record: the same bytes for everybody, and no record of parts that do not fit."""

from __future__ import annotations

import json
import os
import re

import pytest
from apertus_image.errors import UserError
from apertus_image.record.record import Record, identity, name
from apertus_image.record.source import SourceState
from support.checkouts import git


def changed(record, **fields):
    data = json.loads(record.bytes)
    data.update(fields)
    return json.dumps(data, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"


def test_two_clones_give_the_same_bytes(release, tmp_path, monkeypatch):  # acceptance 4
    first = release.record()
    git(tmp_path, "clone", "-q", release.project, str(tmp_path / "another path"))
    os.utime(tmp_path / "another path/flake.lock", (1, 1))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = release.record(tmp_path / "another path", export=release.export | {
        "file": "theirs.sqsh", "check": "quick"})
    assert first.bytes == second.bytes and first.digest == second.digest


def test_it_says_nothing_of_who_made_it(release):
    text = release.record().bytes.decode()
    for word in (str(release.project), "mine.sqsh", "/nix/store", "root", "nix2container"):
        assert word not in text
    assert not re.search(r"\d\dT?\d\d:\d\d", text.replace("sha256:", ""))


def test_every_part_is_in_it(release):
    data = release.record().data
    assert data["source"]["commit"] == git(release.project, "rev-parse", "HEAD")
    assert [each["digest"] for each in data["image"]["layers"]] == release.export["layers"]
    assert data["image"]["config"] == release.image.image_id
    assert data["image"]["content_id"] == "e" * 64
    assert {"nix/pins/wheels.json", "nix/patches/test/one/patch.diff"} <= set(
        data["pins"]["files"])
    assert data["squashfs"]["sha256"] == f"sha256:{'3' * 64}"
    assert data["identity"] == identity(release.image.image_id, f"sha256:{'3' * 64}")


def test_a_name_keeps_version_commit_and_identity(release):
    record = release.record()
    commit, mine = record.data["source"]["commit"][:12], record.data["identity"][7:19]
    assert name(record) == record.name == f"t-1-{commit}-{mine}"
    assert record.data["squashfs"]["file"] == f"t-1-{commit}-{mine}.sqsh"


def test_what_is_dirty_says_so_everywhere(release):
    finding = UserError("a file is not tracked")
    dirty = release.record(source=SourceState("a" * 40, {}, [finding]))
    assert dirty.data["source"]["dirty"] and dirty.name.endswith("-dirty")
    application = {"commit": "b" * 40, "dirty": True, "submodules": {}, "path": "/opt/x",
                   "layer": release.export["layers"][0]}
    assert release.record(application=application).name.endswith("-dirty")
    assert not release.record(application=application | {"dirty": False}).name.endswith("-dirty")


def test_an_edit_to_a_pin_is_another_record(release, tmp_path):
    git(tmp_path, "clone", "-q", release.project, str(tmp_path / "c"))
    (tmp_path / "c/nix/pins/wheels.json").write_text("{}\n")
    before, after = release.record().data["pins"], release.record(tmp_path / "c").data["pins"]
    assert before["all"] != after["all"] and before["flake_lock"] == after["flake_lock"]


def test_an_export_of_another_image_is_refused(release):
    with pytest.raises(UserError) as error:
        release.record(export=release.export | {"image": f"sha256:{'0' * 64}", "layers": []})
    assert "2 faults" in str(error.value) and release.image.image_id in str(error.value)


def test_every_malformed_part_is_named(release):
    with pytest.raises(UserError) as error:
        release.record(manifests={"other": "x"}, source=SourceState("HEAD", {"mod": "main"}))
    said = str(error.value)
    for part in ("$.image.manifests", "$.source.commit", "$.source.submodules.mod"):
        assert part in said


def test_it_is_read_back_as_it_was(release):
    record = release.record()
    again = Record.parse(record.bytes)
    assert again == record and again.digest == record.digest


@pytest.mark.parametrize(("data", "said"), [
    (b"{", "not JSON"), (b"[]", "not JSON"), (b'{"schema": "other"}', "not a record that"),
    (b"{}", "not a record that")])
def test_what_is_no_record_is_refused(data, said):
    with pytest.raises(UserError, match=said):
        Record.parse(data, "here")


def test_unknown_and_missing_fields_are_named_together(release):
    image = dict(release.record().data["image"])
    del image["config"]
    with pytest.raises(UserError) as error:
        Record.parse(changed(release.record(), image=image, clock="now", application=7), "here")
    said = str(error.value)
    assert "faults" in said and "'clock' was unexpected" in said
    assert "'config' is a required property" in said and "here, $.application" in said


def test_a_reformatted_record_is_not_taken(release):
    record = release.record()
    with pytest.raises(UserError, match="not in the form"):
        Record.parse(json.dumps(record.data).encode())
    with pytest.raises(UserError, match="not in the form"):  # a key twice, the last one wins
        Record.parse(record.bytes.replace(b"{", b'{\n  "identity": "x",', 1))
