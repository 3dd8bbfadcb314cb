"""What a new resolution changes, line by line."""

from __future__ import annotations

from apertus_image.resolve.compare import differences


def test_a_comparison_names_what_moved():
    old = {"date": "1", "x": [{"name": "a", "version": "1", "sha256": "a" * 64},
                              {"name": "b", "version": "1", "sha256": "b" * 64},
                              {"name": "c", "version": "1", "sha256": "c" * 64}]}
    new = {"date": "2", "x": [{"name": "a", "version": "2", "sha256": "d" * 64},
                              {"name": "c", "version": "1", "sha256": "e" * 64},
                              {"name": "n", "version": "1", "sha256": "f" * 64}]}
    assert differences(old, new) == [
        "date: 1 -> 2", "x:   a 1 -> 2", "x: - b 1",
        "x: ! c 1: other bytes, sha256 cccccccccccc -> eeeeeeeeeeee", "x: + n 1"]
    assert differences(old, old) == []
