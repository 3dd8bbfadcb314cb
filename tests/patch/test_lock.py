"""Hashes are recomputed and shown, and only for files that are known."""

from __future__ import annotations

import json

import pytest
from apertus_image.errors import UserError
from apertus_image.patch.lock import Change, folders, relock
from support import patches as data

ONCE = data.SOURCE.replace("VALUE = 1", "VALUE = 2")
TWICE = ONCE.replace("return VALUE", "return VALUE + 1")
ADDS = "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -1,0 +2 @@\n+OTHER = 3\n"
ADDED = ONCE.replace("VALUE = 2\n", "VALUE = 2\nOTHER = 3\n")


@pytest.fixture
def lock(tmp_path):
    """Locks patches of tmp_path by name, with the small wheel."""
    wheel = data.wheel(tmp_path)

    def lock(*names, write=True):
        return relock([tmp_path / name for name in names], lambda name, version: wheel,
                      write=write)

    return lock


def hashes(folder, path="pkg/m.py"):
    return json.loads((folder / "patch.json").read_text())["files"].get(path)


def test_hashes_are_recomputed_and_told(tmp_path, lock):
    data.patch(tmp_path, "one", data.SOURCE, "wrong")
    data.patch(tmp_path, "two", "wrong", TWICE, data.SECOND)
    before = (tmp_path / "one/patch.json").read_text()
    told = lock("one", "two", write=False)
    assert (tmp_path / "one/patch.json").read_text() == before
    assert told == [
        Change("one", "pkg/m.py", "after", data.sha256("wrong"), data.sha256(ONCE)),
        Change("two", "pkg/m.py", "before", data.sha256("wrong"), data.sha256(ONCE)),
    ]
    assert lock("one", "two") == told
    assert hashes(tmp_path / "two") == {"before": data.sha256(ONCE), "after": data.sha256(TWICE)}
    assert lock("one", "two") == []


def test_a_new_patch_gets_its_hashes(tmp_path, lock):
    data.patch(tmp_path, "one", "", "", files={})
    assert [(c.which, c.old) for c in lock("one")] == [("before", None), ("after", None)]
    assert hashes(tmp_path / "one") == {"before": data.sha256(data.SOURCE),
                                        "after": data.sha256(ONCE)}


def test_what_was_written_by_hand_stays(tmp_path, lock):
    upstream = {"issue": "a/b#1", "note": "Größe"}
    data.patch(tmp_path, "one", data.SOURCE, "", upstream=upstream)
    lock("one")
    found = json.loads((tmp_path / "one/patch.json").read_text())
    assert found["upstream"] == upstream and found["summary"] == "s"
    assert "Größe" in (tmp_path / "one/patch.json").read_text()
    assert sorted(file.name for file in (tmp_path / "one").iterdir()) == ["patch.diff",
                                                                          "patch.json"]


def test_a_file_that_is_no_longer_changed(tmp_path, lock):
    files = {path: {"before": data.sha256(data.SOURCE), "after": data.sha256(ONCE)}
             for path in ("pkg/m.py", "pkg/n.py")}
    data.patch(tmp_path, "one", "", "", files=files)
    assert [(c.path, c.which, c.new) for c in lock("one")] == [
        ("pkg/n.py", "before", "gone"), ("pkg/n.py", "after", "gone")]
    assert hashes(tmp_path / "one", "pkg/n.py") is None


def test_another_file_in_the_wheel_is_not_taken(tmp_path, lock):
    # Its lines fit: it is another version of the file that they were written for.
    data.patch(tmp_path, "one", data.SOURCE + "# older\n", ONCE)
    before = (tmp_path / "one/patch.json").read_text()
    with pytest.raises(UserError, match="written for another file") as error:
        lock("one")
    assert (tmp_path / "one/patch.json").read_text() == before
    assert data.sha256(data.SOURCE) in error.value.got and "before" in error.value.next_step


def test_taking_before_out_accepts_the_file(tmp_path, lock):
    files = {"pkg/m.py": {"after": data.sha256(ONCE)}}
    data.patch(tmp_path, "one", "", "", files=files)
    assert [(c.which, c.old) for c in lock("one")] == [("before", None)]


def test_added_lines_stop_when_a_patch_before_them_changes(tmp_path, lock):
    # They would fit, one line too high: the first patch has come to add a line above.
    longer = data.DIFF.replace("+1 @@", "+1,2 @@") + "+NEW = 0\n"
    data.patch(tmp_path, "one", data.SOURCE, "", longer)
    data.patch(tmp_path, "two", ONCE, ADDED, ADDS)
    before = (tmp_path / "one/patch.json").read_text()
    with pytest.raises(UserError, match="written for another file") as error:
        lock("one", "two")
    assert "the patches before" in error.value.next_step
    # Nothing is written of a series that does not fit as a whole.
    assert (tmp_path / "one/patch.json").read_text() == before


def test_a_diff_that_does_not_fit_writes_nothing(tmp_path, lock):
    data.patch(tmp_path, "one", data.SOURCE, "wrong")
    data.patch(tmp_path, "two", ONCE, TWICE, data.SECOND.replace("-    return VALUE", "-    pass"))
    before = (tmp_path / "one/patch.json").read_text()
    with pytest.raises(UserError, match="does not fit"):
        lock("one", "two")
    assert (tmp_path / "one/patch.json").read_text() == before


@pytest.mark.parametrize(
    ("other", "diff", "told"),
    [
        ({"name": "two"}, data.DIFF, "another name"),
        ({"licence": None}, data.DIFF, "lacks a field"),
        ({"files": {}}, data.DIFF.replace("m.py", "gone.py"), "does not have"),
        ({}, "no diff", "malformed"),
    ],
    ids=["name", "field", "file", "diff"],
)
def test_faults(tmp_path, lock, other, diff, told):
    data.patch(tmp_path, "one", data.SOURCE, ONCE, diff, **other)
    with pytest.raises(UserError, match=told):
        lock("one")


@pytest.mark.parametrize(
    ("series", "told"),
    [
        ('{"a": ["a/one", "b/two"]}', None),
        ('{"a": ["a/one"]}', "b/two"),
        ('{"a": ["a/one", "b/two", "b/three"]}', "b/three"),
        ('{"a": ["a/one", "b/two", "a/one"]}', "a/one"),
    ],
)
def test_a_series_names_each_folder_once(tmp_path, series, told):
    for name in ("a/one", "b/two"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "patch.diff").write_text("")
    (tmp_path / "series.json").write_text(series)
    if told is None:
        assert folders(tmp_path) == [tmp_path / "a/one", tmp_path / "b/two"]
    else:
        with pytest.raises(UserError, match="series.json") as error:
            folders(tmp_path)
        assert error.value.got == told
