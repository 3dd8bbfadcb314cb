"""Each path of layered trees once, as the topmost tree has it."""

from __future__ import annotations

from apertus_image.lint.walk import walk
from support.trees import ODD, make


def test_the_later_tree_wins_and_nothing_comes_twice(tmp_path):
    low = make(tmp_path / "low", {"a": "1", "b": "-> a", "d/e": "x", "same": "1"})
    high = make(tmp_path / "high", {"a": "2", "b": "now a file", "d/f": "y", "l": "-> nowhere"})
    found = [(e.path, e.target or e.physical.read_text()) for e in walk([low, high])]
    assert sorted(found) == [("/a", "2"), ("/b", "now a file"), ("/d/e", "x"), ("/d/f", "y"),
                             ("/l", "nowhere"), ("/same", "1")]


def test_odd_names_and_links_are_all_there(tmp_path):
    root = make(tmp_path / "root", ODD)
    found = {entry.path[1:]: entry.target for entry in walk([root])}
    assert set(found) == {name for name in ODD if not name.endswith("/")}
    for name, content in ODD.items():
        if isinstance(content, str) and content.startswith("-> "):
            assert found[name] == content[3:]
