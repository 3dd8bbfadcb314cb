"""Diffs are applied exactly or not at all (case 30)."""

from __future__ import annotations

import difflib
import random

import pytest
from apertus_image.errors import UserError
from apertus_image.patch.diff import apply, parse

TEXT = "one\ntwo\nthree\nfour\n"
HEAD = "--- a/f.py\n+++ b/f.py\n"
CHANGE = HEAD + "@@ -2 +2,2 @@\n-two\n+TWO\n+2.5\n@@ -4 +5 @@\n-four\n+FOUR\n"
AFTER = "one\nTWO\n2.5\nthree\nFOUR\n"


def once(diff, text=TEXT):
    (file,) = parse(diff, "p")
    return apply(text, file, "p")


@pytest.mark.parametrize(
    ("diff", "after"),
    [
        (CHANGE, AFTER),
        (HEAD + "@@ -0,0 +1 @@\n+zero\n", "zero\n" + TEXT),
        (HEAD + "@@ -4,0 +5,2 @@\n+five\n+six\n", TEXT + "five\nsix\n"),
        (HEAD + "@@ -2,2 +1,0 @@\n-two\n-three\n", "one\nfour\n"),
        (HEAD + "@@ -2,2 +1,0 @@ def f():\n-two\n-three\n", "one\nfour\n"),
        # Lines that look like a diff's own.
        (HEAD + "@@ -1 +1,2 @@\n-one\n+-- a/x\n+@@ -1 +1 @@\n",
         "-- a/x\n@@ -1 +1 @@\ntwo\nthree\nfour\n"),
    ],
)
def test_hunks(diff, after):
    assert once(diff) == after


def unified(before, after):
    """difflib's diff without context."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True),
                                 "a/f.py", "b/f.py", n=0)
    return "".join(lines)


@pytest.mark.parametrize("seed", range(50))
def test_any_diff_gives_back_the_file_it_was_made_from(seed):
    chance = random.Random(seed)
    before = [f"line {chance.randrange(9)}\n" for _ in range(chance.randrange(1, 30))]
    after = [line for line in before if chance.random() > 0.2]
    for _ in range(chance.randrange(1, 6)):
        after.insert(chance.randrange(len(after) + 1), f"new {chance.randrange(9)}\n")
    before, after = "".join(before), "".join(after)
    assert once(unified(before, after), before) == after


def test_files_of_one_diff_are_kept_apart():
    other = CHANGE.replace("f.py", "g.py")
    assert [file.path for file in parse(CHANGE + other, "p")] == ["f.py", "g.py"]
    # Line numbers count from each file's own beginning.
    assert [apply(TEXT, file, "p") for file in parse(CHANGE + other, "p")] == [AFTER, AFTER]


@pytest.mark.parametrize(
    "ids", ["0123456..ba98765", "0123456789ab..ba9876543210", "0123456789abc..cba9876543210",
            "0" * 40 + ".." + "1" * 40])
def test_index_lines_of_any_length_say_nothing(ids):  # case 30
    assert once(f"diff --git a/f.py b/f.py\nindex {ids} 100644\n{CHANGE}") == AFTER


def test_a_hunk_that_does_not_fit_is_named():
    with pytest.raises(UserError) as error:
        once(CHANGE, TEXT.replace("four", "IV"))
    told = error.value
    assert told.what == "a patch does not fit"
    assert (told.where, told.expected, told.got) == ("p, f.py, hunk 2, line 4", "four", "IV")


def test_no_offset_is_tried():
    with pytest.raises(UserError, match="does not fit"):
        once(CHANGE, "zero\n" + TEXT)


def test_no_blank_is_forgiven():
    with pytest.raises(UserError) as error:
        once(CHANGE, TEXT.replace("two\n", "two\r\n"))
    assert (error.value.expected, error.value.got) == ("two", "two\\r")


@pytest.mark.parametrize(
    ("diff", "text"),
    [
        # Nothing to compare with, but no such line to follow either.
        (HEAD + "@@ -5,0 +6 @@\n+five\n", TEXT),
        (HEAD + "@@ -99,0 +100 @@\n+five\n", TEXT),
        (HEAD + "@@ -5 +4,0 @@\n-\n", TEXT),
        # The last line has no newline, and what replaces it would.
        (HEAD + "@@ -2 +2 @@\n-two\n+TWO\n", "one\ntwo"),
    ],
)
def test_beyond_the_end_of_the_file(diff, text):
    with pytest.raises(UserError, match="does not fit"):
        once(diff, text)


@pytest.mark.parametrize(
    ("diff", "text"),
    [
        (CHANGE, AFTER),
        # Added lines alone replace nothing, so they would fit a second time.
        (HEAD + "@@ -1,0 +2 @@\n+1.5\n", "one\n1.5\ntwo\n"),
        (HEAD + "@@ -4,0 +5 @@\n+five\n", TEXT + "five\n"),
    ],
)
def test_a_diff_that_is_there_already_is_told(diff, text):
    with pytest.raises(UserError, match="in the file already"):
        once(diff, text)


def test_a_diff_that_only_removes_is_not_taken_for_applied():
    with pytest.raises(UserError, match="does not fit"):
        once(HEAD + "@@ -2 +1,0 @@\n-zwei\n")


@pytest.mark.parametrize(
    "diff",
    [
        pytest.param("", id="empty"),
        pytest.param(HEAD, id="no hunk"),
        pytest.param(HEAD + CHANGE.replace("f.py", "g.py"), id="a file without hunks"),
        pytest.param("@@ -1 +1 @@\n-one\n+1\n", id="no file"),
        pytest.param("--- a/f\n+++ b/g\n@@ -1 +1 @@\n-one\n+1\n", id="two names"),
        pytest.param("--- f\n+++ f\n@@ -1 +1 @@\n-one\n+1\n", id="no prefixes"),
        pytest.param(HEAD + "@@ -1,2 +1,2 @@\n one\n-two\n+2\n", id="context"),
        pytest.param(HEAD + "@@ -1 +1,2 @@\n-one\n+1\n", id="too few lines"),
        pytest.param(HEAD + "@@ -1 +1 @@\n-one\n+1\n+2\n", id="too many lines"),
        pytest.param(HEAD + "@@ -1 +1 @@\n+1\n-one\n", id="added before removed"),
        pytest.param(HEAD + "@@ -1,0 +1,0 @@\n", id="an empty hunk"),
        pytest.param(HEAD + "@@ -0 +0 @@\n-one\n+1\n", id="line 0"),
        pytest.param(HEAD + "@@ -2 +3 @@\n-two\n+2\n", id="comes to stand elsewhere"),
        pytest.param(HEAD + "@@ -4 +4 @@\n-four\n+4\n@@ -2 +2 @@\n-two\n+2\n", id="out of order"),
        pytest.param(HEAD + "@@ -1,2 +1 @@\n-one\n-two\n+1\n@@ -2 +1 @@\n-two\n+2\n", id="overlap"),
        pytest.param(CHANGE + CHANGE, id="a file twice"),
        pytest.param("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", id="makes a file"),
        pytest.param("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", id="removes a file"),
        pytest.param("old mode 100644\nnew mode 100755\n" + CHANGE, id="a mode"),
        pytest.param("rename from e.py\nrename to f.py\n" + CHANGE, id="a rename"),
        pytest.param("Binary files a/g and b/g differ\n" + CHANGE, id="binary"),
        pytest.param("From 0123 Mon Sep 17\n" + CHANGE, id="a mail"),
        pytest.param(CHANGE + "\\ No newline at end of file\n", id="no newline"),
        *(pytest.param(CHANGE.replace("f.py", path), id=path)
          for path in ("../f", "x/../../f", "/etc/f", "x//f", "./f", ".")),
    ],
)
def test_malformed_diffs(diff):
    with pytest.raises(UserError, match="malformed") as error:
        parse(diff, "p")
    assert error.value.where.startswith("p, line ")
