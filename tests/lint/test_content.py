"""Files that hold store paths, and bytecode that is not its source's."""

from __future__ import annotations

import os
import py_compile
from pathlib import Path

import pytest
from apertus_image.bytecode.compile import compile_tree
from apertus_image.lint.content import check_bytecode, check_store_paths
from apertus_image.lint.walk import Entry
from apertus_image.tree.view import View
from support.wheels import PYTHON

STORE = b"/nix/" + b"store/"


def paths_found(tmp_path, text):
    file = tmp_path / "x"
    file.write_bytes(text)
    return list(check_store_paths(Entry("/usr/bin/x", file)))


@pytest.mark.parametrize("text", [
    STORE + b"0123-x/bin/sh", b"#!" + STORE + b"x\n", bytes(5_000_000) + STORE, STORE,
    b"a" * 4090 + STORE + b"over a page's end", STORE.rstrip(b"/"),
], ids=["path", "shebang", "far", "folder", "page", "store"])
def test_a_store_path_is_found_wherever_it_is(tmp_path, text):  # trap 5
    [found] = paths_found(tmp_path, text)
    assert (found.check, found.path) == ("store", "/usr/bin/x")
    assert found.subject.startswith(STORE.decode().rstrip("/"))


@pytest.mark.parametrize("end", [b"\n", b"\0", b" ", b"\xff"])
def test_what_is_told_of_a_store_path_ends_with_it(tmp_path, end):
    [found] = paths_found(tmp_path, b"#!" + STORE + b"0123-x/bin/sh" + end + b"more")
    assert found.subject == STORE.decode() + "0123-x/bin/sh"


@pytest.mark.parametrize("text", [b"", b"/nix/", b"nix store /nix", bytes(100)],
                         ids=["empty", "short", "words", "zeros"])
def test_what_is_no_store_path(tmp_path, text):  # trap 5
    assert paths_found(tmp_path, text) == []


@pytest.mark.parametrize(("target", "count"), [
    (STORE.decode() + "0123-x", 1), ("../.." + STORE.decode() + "x", 1), ("/usr/bin/y", 0),
])
def test_links_are_looked_at_too(tmp_path, target, count):  # trap 5
    found = list(check_store_paths(Entry("/x", tmp_path / "none", target)))
    assert [each.subject for each in found] == [target] * count


@pytest.fixture
def module(tmp_path):
    """A module with right bytecode: (its view, bytecode's path, source on disk)."""
    source = tmp_path / "opt/m.py"
    source.parent.mkdir()
    source.write_text("value = 1\n")
    [each] = compile_tree(tmp_path, ["/opt/m.py"], PYTHON)
    return View([tmp_path]), each.path, source


def subjects(view, path):
    return [finding.subject for finding in check_bytecode(view, path, view.physical(path))]


def test_right_bytecode_passes(module):  # trap 14
    view, path, _ = module
    assert subjects(view, path) == []


def test_bytecode_of_another_source_is_stale(module):  # trap 14
    view, path, source = module
    times = source.stat()
    source.write_text("value = 2\n")  # equal size, equal time
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert subjects(view, path) == ["stale"]


def test_an_overlay_that_replaces_the_source_alone_is_found(module, tmp_path):  # trap 14
    _, path, _ = module
    overlay = tmp_path / "overlay/opt/m.py"
    overlay.parent.mkdir(parents=True)
    overlay.write_text("value = 2\n")
    view = View([tmp_path, tmp_path / "overlay"])
    assert subjects(view, path) == ["stale"]
    compile_tree(tmp_path / "overlay", ["/opt/m.py"], PYTHON)
    assert subjects(View([tmp_path, tmp_path / "overlay"]), path) == []


@pytest.mark.parametrize("kind", ["TIMESTAMP", "CHECKED_HASH"])
def test_other_kinds_of_bytecode_are_refused(module, kind):  # case 38, trap 14
    view, path, source = module
    mode = py_compile.PycInvalidationMode[kind]
    py_compile.compile(str(source), str(view.physical(path)), invalidation_mode=mode)
    assert subjects(view, path) == ["kind"]


def test_unchecked_bytecode_of_the_interpreter_itself_passes(module):
    view, path, source = module
    py_compile.compile(str(source), str(view.physical(path)),
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert subjects(view, path) == []


def test_bytecode_without_a_source_is_found(module):
    view, path, source = module
    source.unlink()
    assert subjects(View([Path(root) for root in view.roots]), path) == ["source"]


def test_bytecode_cut_short_is_found(module):
    view, path, _ = module
    view.physical(path).write_bytes(b"")
    assert subjects(view, path) == ["kind"]


def test_bytecode_beside_its_source_would_be_imported_without_it(module, tmp_path):
    view, path, _ = module
    (tmp_path / "opt/other.pyc").write_bytes(view.physical(path).read_bytes())
    assert subjects(view, "/opt/other.pyc") == ["place"]


def test_bytecode_of_another_release_under_this_ones_name(module):
    view, path, _ = module
    file = view.physical(path)
    data = file.read_bytes()
    file.write_bytes(b"\0\0\r\n" + data[4:])
    assert "magic" in subjects(view, path)
