"""A patch's description: every fault is told, and none is a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.patch.data import Patch, describe
from support import patches as data

AFTER = data.SOURCE.replace("VALUE = 1", "VALUE = 2")


def load(folder, *arguments, **other):
    given = data.patch(folder, "one", *(arguments or (data.SOURCE, AFTER)), **other)
    return Patch.load(Path(given["meta"]), Path(given["diff"]))


def test_a_patch_is_read(tmp_path):
    patch = load(tmp_path)
    assert (patch.name, patch.wheel, patch.version) == ("one", "pkg", "1.0")
    assert patch.apply("pkg/m.py", data.SOURCE.encode()) == AFTER.encode()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"licence": ""}, ["licence: a text"]),
        ({"upstream": {}}, ["upstream: an object"]),
        ({"upstream": "a link"}, ["upstream: an object", "a link"]),
        ({"wheel": None, "summary": None}, ["has 2 faults", "wheel: a text", "summary: a text"]),
        ({"files": []}, ["files: an object"]),
        ({"files": {"pkg/m.py": "0123"}}, ["pkg/m.py", "tools/lock patches"]),
        ({"files": {"pkg/m.py": {"before": "0123", "after": "4567"}}}, ["lacks hashes", "64 hex"]),
        ({"files": {"pkg/m.py": {"before": "0" * 64}}}, ["lacks hashes", "tools/lock patches"]),
        ({"files": {}}, ["names other files", "pkg/m.py", "none"]),
    ],
)
def test_a_wrong_description(tmp_path, other, told):
    with pytest.raises(UserError) as error:
        load(tmp_path, **other)
    assert all(word in str(error.value) for word in told), str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", '"text"', ""])
def test_what_is_no_description(tmp_path, text):
    (tmp_path / "patch.json").write_text(text)
    with pytest.raises(UserError) as error:
        describe(tmp_path / "patch.json")
    assert error.value.where == tmp_path / "patch.json"


def test_a_diff_of_more_files_than_described(tmp_path):
    with pytest.raises(UserError, match="names other files") as error:
        load(tmp_path, data.SOURCE, AFTER, data.DIFF + data.DIFF.replace("m.py", "n.py"))
    assert error.value.expected == "pkg/m.py, pkg/n.py"


def test_record_is_nobodys_to_patch(tmp_path):
    record = "pkg-1.0.dist-info/RECORD"
    files = {record: {"before": "0" * 64, "after": "1" * 64}}
    with pytest.raises(UserError, match="RECORD"):
        load(tmp_path, "", "", data.DIFF.replace("pkg/m.py", record), files=files)


def test_a_file_that_is_no_text(tmp_path):
    with pytest.raises(UserError, match="no text"):
        load(tmp_path).changed("pkg/m.py", b"VALUE = 1\n\xff\xfe\n")


def test_letters_outside_ascii_are_kept(tmp_path):
    before, after = ("# Größe\r\n" + text for text in (data.SOURCE, AFTER))
    diff = data.DIFF.replace("@@ -1 +1 @@", "@@ -2 +2 @@")
    patch = load(tmp_path, before, after, diff)
    assert patch.apply("pkg/m.py", before.encode()) == after.encode()


def test_line_ends_of_the_checkout_do_not_matter(tmp_path):
    given = data.patch(tmp_path, "one", data.SOURCE, AFTER)
    for file in (Path(given["diff"]), Path(given["meta"])):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    patch = Patch.load(Path(given["meta"]), Path(given["diff"]))
    assert patch.apply("pkg/m.py", data.SOURCE.encode()) == AFTER.encode()


def test_the_fixture_is_json(tmp_path):
    given = data.patch(tmp_path, "one", "a", "b")
    assert json.loads(Path(given["meta"]).read_text()) == describe(Path(given["meta"]))
