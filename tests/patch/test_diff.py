"""Diffs are applied exactly or not at all (case 30)."""

from __future__ import annotations

import pytest
from apertus_image.errors import UserError
from apertus_image.patch.diff import apply, parse

TEXT = "one\ntwo\nthree\nfour\n"
CHANGE = "--- a/f.py\n+++ b/f.py\n@@ -2 +2,2 @@\n-two\n+TWO\n+2.5\n@@ -4 +5 @@\n-four\n+FOUR\n"
AFTER = "one\nTWO\n2.5\nthree\nFOUR\n"


def once(diff, text=TEXT):
    return apply(text, parse(diff, "p")[0], "p")


@pytest.mark.parametrize(
    ("diff", "after"),
    [
        (CHANGE, AFTER),
        ("--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+zero\n", "zero\n" + TEXT),
        ("--- a/f\n+++ b/f\n@@ -4,0 +5,2 @@\n+five\n+six\n", TEXT + "five\nsix\n"),
        ("--- a/f\n+++ b/f\n@@ -2,2 +1,0 @@\n-two\n-three\n", "one\nfour\n"),
    ],
)
def test_hunks(diff, after):
    assert once(diff) == after


@pytest.mark.parametrize("ids", ["0123456789ab..ba9876543210", "0123456789abc..cba9876543210"])
def test_index_lines_of_any_length_say_nothing(ids):
    assert once(f"diff --git a/f.py b/f.py\nindex {ids} 100644\n{CHANGE}") == AFTER


def test_a_hunk_that_does_not_fit_is_named():
    with pytest.raises(UserError) as error:
        once(CHANGE, TEXT.replace("four", "4"))
    said = str(error.value)
    assert "p, f.py, hunk 2, line 4" in said and "four" in said and "4" in said


def test_no_offset_is_tried():
    with pytest.raises(UserError, match="does not fit"):
        once(CHANGE, "zero\n" + TEXT)


def test_a_diff_that_is_there_already_is_told():
    with pytest.raises(UserError, match="in the file already"):
        once(CHANGE, AFTER)


@pytest.mark.parametrize(
    "diff",
    ["", "--- a/f\n+++ b/f\n", "@@ -1 +1 @@\n-one\n+1\n", "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
     "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
     "--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-one\n+1\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"],
)
def test_malformed_diffs(diff):
    with pytest.raises(UserError, match="malformed"):
        parse(diff, "p")
