"""A commit's own files, whatever lies around them (case 32)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.release.source import ApplicationSource, tree_of
from apertus_image.store.store import Store
from support.checkouts import cloned, commit, git, nested, repository, submodule

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix-store"), reason="not run: Nix is not here"),
]


@pytest.fixture
def store(tmp_path):
    """A store that lies below the test's folder."""
    yield Store(tmp_path / "store")
    subprocess.run(["chmod", "-R", "u+w", tmp_path / "store"], check=False, capture_output=True)


def content(found: ApplicationSource, store: Store) -> dict[str, bytes | str]:
    """Path -> bytes, or a link's target; a program's path ends in `*`."""
    tree = store.physical(found.path) / "tree"
    result = {}
    for file in tree.rglob("*"):
        name = str(file.relative_to(tree))
        if file.is_symlink():
            result[name] = f"-> {os.readlink(file)}"
        elif file.is_file():
            result[name + ("*" if file.stat().st_mode & 0o100 else "")] = file.read_bytes()
    return result


TRACKED = {"a.py": b"a = 1\n", ".gitignore": b"*.log\nbuild/\n", "bin/run*": b"#!/bin/sh\n",
           "link": "-> a.py", "mod/i.py": b"i = 1\n", "mod/.gitignore": b"*.log\n",
           "mod/deep/d.py": b"d = 1\n"}


def test_it_holds_the_commits_files_and_its_submodules(tmp_path, store):
    outer = nested(tmp_path)
    found = tree_of(cloned(outer, tmp_path / "clone"), store=store)
    held = content(found, store)
    assert {name for name in held if not name.endswith(".gitmodules")} == set(TRACKED)
    assert all(held[name] == what for name, what in TRACKED.items())
    assert found.commit == git(outer, "rev-parse", "HEAD") and found.warnings == ()
    assert found.submodules == (
        ("mod", git(tmp_path / "inner", "rev-parse", "HEAD")),
        ("mod/deep", git(tmp_path / "deepest", "rev-parse", "HEAD")))
    assert found.at == "/opt/nemo-rl" and found.files == len(held)
    everything = b"".join(file.read_bytes() for file in store.physical(found.path).rglob("*")
                          if file.is_file() and file.name != ".gitmodules")
    assert found.commit.encode() not in everything and b"clone" not in everything


def test_two_checkouts_of_one_commit_are_one_path(tmp_path, store):
    outer = nested(tmp_path)
    one, two = cloned(outer, tmp_path / "one"), cloned(outer, tmp_path / "elsewhere/two")
    (two / "x.log").write_text("ignored")
    (two / "build").mkdir()
    (two / "build/out").write_text("ignored")
    (two / "mod/y.log").write_text("ignored")
    (two / "new.py").write_text("untracked")
    (two / "a.py").write_text("changed")
    (two / "bin/run").chmod(0o600)
    (two / "mod/i.py").unlink()
    git(two, "config", "core.autocrlf", "true")
    (two / ".git/info/attributes").write_text("*.py export-ignore ident filter=x\n")
    git(two, "config", "filter.x.smudge", "false")
    before = git(two, "status", "--porcelain")
    assert tree_of(one, store=store) == tree_of(two, store=store)
    assert git(two, "status", "--porcelain") == before
    shutil.rmtree(one)
    worktree = tmp_path / "worktree"
    git(two, "worktree", "add", "--quiet", worktree, "HEAD")
    git(worktree, "submodule", "--quiet", "update", "--init", "--recursive")
    assert tree_of(worktree, store=store) == tree_of(two, store=store)


def test_attributes_in_the_commit_change_no_byte(tmp_path, store):
    attributes = "*.sub export-subst ident\nout export-ignore\n*.crlf text eol=crlf\n"
    files = {".gitattributes": attributes,
             "x.sub": "$Format:%H$ $Id$\n", "out": "o", "x.crlf": "one\ntwo\n"}
    held = content(tree_of(repository(tmp_path / "r", files), store=store), store)
    assert held == {name: text.encode() for name, text in files.items()}


def test_an_edit_and_another_place_are_other_paths(tmp_path, store):
    folder = repository(tmp_path / "r", {"a.py": "1"})
    first = tree_of(folder, store=store)
    placed = tree_of(folder, "/opt/mine", store=store)
    (folder / "a.py").write_text("2")
    assert tree_of(folder, store=store) == first
    commit(folder)
    edited = tree_of(folder, store=store)
    assert len({first.path, placed.path, edited.path}) == 3
    assert content(placed, store) == content(first, store) != content(edited, store)


def test_a_commit_without_a_change_is_the_same_path(tmp_path, store):
    folder = repository(tmp_path / "r", {"a.py": "1"})
    first = tree_of(folder, store=store)
    commit(folder, "nothing")
    second = tree_of(folder, store=store)
    assert first.path == second.path and first.commit != second.commit


def test_pointers_of_lfs_stay_and_are_told(tmp_path, store):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    folder = repository(tmp_path / "r", {"w.bin": pointer, "about": "x" + pointer,
                                         "long": pointer + "y" * 2000})
    found = tree_of(folder, store=store)
    assert content(found, store)["w.bin"] == pointer.encode()
    warning, = found.warnings
    assert "1 files are Git LFS pointers" in warning and warning.endswith("w.bin")


def test_links_stay_and_those_that_lead_out_are_told(tmp_path, store):
    links = {"abs": "-> /etc/passwd", "d/up": "-> ../../x", "d/in": "-> ../f", "d/dot": "-> ./../f",
             "dangling": "-> nowhere"}
    folder = repository(tmp_path / "r", {"f": "f", **links})
    found = tree_of(folder, store=store)
    assert content(found, store) == {"f": b"f", **links}
    warning, = found.warnings
    assert "2 links lead out" in warning and "abs, d/up" in warning


def test_names_that_differ_in_case_or_are_odd_are_kept(tmp_path, store):
    files = {"README": "1", "readme": "2", "a b/é": "3", "-x": "4", "q'\"\\": "5", "empty": ""}
    held = content(tree_of(repository(tmp_path / "r", files), store=store), store)
    assert held == {name: text.encode() for name, text in files.items()}


def test_a_repository_of_sha256_and_a_large_file(tmp_path, store):
    files = {"big": os.urandom(3 << 20), "small": b"s"}
    folder = repository(tmp_path / "r", files, "--object-format=sha256")
    found = tree_of(folder, store=store)
    assert len(found.commit) == 64 and content(found, store) == files


def test_surroundings_of_a_hook_change_nothing(tmp_path, store, monkeypatch):
    folder, other = (repository(tmp_path / name, {"f": name}) for name in ("r", "other"))
    first = tree_of(folder, store=store)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert tree_of(folder, store=store) == first


def test_replaced_objects_are_not_looked_at(tmp_path, store):
    folder = repository(tmp_path / "r", {"f": "mine"})
    first = tree_of(folder, store=store)
    blob = git(folder, "hash-object", "-w", "--stdin", input="another's")
    git(folder, "replace", git(folder, "rev-parse", "HEAD:f"), blob)
    assert tree_of(folder, store=store) == first


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: needs root to give files away")
def test_a_checkout_that_another_user_owns_is_read(tmp_path, store):  # trap 10
    clone = cloned(nested(tmp_path), tmp_path / "clone")
    first = tree_of(clone, store=store)
    subprocess.run(["chown", "-R", "1:1", clone], check=True)
    assert tree_of(clone, store=store) == first


# -- what cannot be had --------------------------------------------------------------


def refused(checkout: Path, store: Store, *arguments: str) -> str:
    with pytest.raises(UserError) as error:
        tree_of(checkout, *arguments, store=store)
    assert not (store.root / "nix/store").exists() or not any(
        path.name.endswith("-source") for path in (store.root / "nix/store").iterdir())
    return str(error.value)


def test_submodules_that_are_not_checked_out_are_all_named(tmp_path, store):
    clone = cloned(nested(tmp_path), tmp_path / "clone")
    git(clone / "mod", "submodule", "--quiet", "deinit", "--force", "deep")
    said = refused(clone, store)
    assert "not checked out" in said and "mod/deep" in said and "update --init" in said
    more = repository(tmp_path / "more", {"m": "m"})
    submodule(clone, more, "second")
    git(clone, "submodule", "--quiet", "deinit", "--force", "second")
    said = refused(clone, store)
    assert "2 submodules" in said and "mod/deep" in said and "second" in said


def test_a_submodule_without_its_commit_is_named(tmp_path, store):
    clone = cloned(nested(tmp_path), tmp_path / "clone")
    git(clone, "update-index", "--cacheinfo", f"160000,{'1' * 40},mod")
    git(clone, "commit", "--quiet", "--message", "a commit that nobody has")
    said = refused(clone, store)
    assert "does not have its commit" in said and "1" * 40 in said


def test_a_submodule_at_another_commit_gives_the_commits_files(tmp_path, store):
    """The gate refuses it; the tree is the commit's all the same."""
    clone = cloned(nested(tmp_path), tmp_path / "clone")
    first = tree_of(clone, store=store)
    (clone / "mod/i.py").write_text("other\n")
    commit(clone / "mod")
    assert tree_of(clone, store=store) == first


def test_a_submodules_name_is_not_its_place(tmp_path, store):
    """What .gitmodules says is not believed: only the commit's entry and its folder count."""
    clone = cloned(nested(tmp_path), tmp_path / "clone")
    text = (clone / ".gitmodules").read_text()
    (clone / ".gitmodules").write_text(
        text.replace('"mod"', '"../../evil"').replace("path = mod", "path = ../../elsewhere"))
    commit(clone)
    assert content(tree_of(clone, store=store), store)["mod/i.py"] == b"i = 1\n"


def objects(folder: Path, oid: str) -> Path:
    return folder / ".git/objects" / oid[:2] / oid[2:]


def test_a_damaged_object_is_found(tmp_path, store):
    folder = repository(tmp_path / "r", {"f": "mine", "g": "other"})
    oids = [git(folder, "rev-parse", f"HEAD:{name}") for name in "fg"]
    one, other = (objects(folder, oid) for oid in oids)
    one.chmod(0o644)
    one.write_bytes(other.read_bytes())  # a sound object under another's name
    said = refused(folder, store)
    assert "r: f" in said and oids[0] in said and "fsck" in said


def test_a_partial_clone_is_told_and_nothing_is_fetched(tmp_path, store):
    origin = repository(tmp_path / "origin", {"f": "content"})
    git(origin, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-checkout", "--filter=blob:none", origin.as_uri(), clone)
    blob = git(origin, "rev-parse", "HEAD:f")
    said = refused(clone, store)
    assert "object store" in said and blob in said and "--refetch" in said
    assert blob not in git(clone, "cat-file", "--batch-all-objects", "--batch-check")
    git(clone, "checkout", "--quiet")
    assert content(tree_of(clone, store=store), store) == {"f": b"content"}


def crafted(tmp_path: Path, entries: list[tuple[str, str, str]]) -> Path:
    """A repository whose commit holds a tree that git itself would not make."""
    folder = repository(tmp_path / "r", {"f": "f"})
    raw = b""
    for mode, name, text in entries:
        oid = git(folder, "hash-object", "-w", "--stdin", input=text)
        raw += f"{mode} {name}\0".encode() + bytes.fromhex(oid)
    (tmp_path / "raw").write_bytes(raw)
    tree = git(folder, "hash-object", "-t", "tree", "-w", "--literally", tmp_path / "raw")
    made = git(folder, "commit-tree", tree, "-m", "crafted")
    git(folder, "update-ref", "HEAD", made)
    return folder


@pytest.mark.parametrize(("entries", "says"), [
    ([("100644", "..", "x")], "leave its folder"),
    ([("100644", "../../escaped", "x")], "leave its folder"),
    ([("100644", ".git", "x")], "git's own"), ([("100644", ".wh.f", "x")], "deleted file"),
    ([("120000", "a", "/tmp"), ("100644", "a/escaped", "x")], "one path twice"),
    ([("100644", "a", "1"), ("100644", "a", "2")], "one path twice"),
    ([("100644", "new\nline", "x")], "control character"),
    ([("120000", "link", "")], "no usable target"),
])
def test_names_that_escape_or_that_an_image_cannot_hold(tmp_path, store, entries, says):
    assert says in refused(crafted(tmp_path, entries), store)
    assert not Path("/tmp/escaped").exists() and not list(tmp_path.glob("**/escaped"))


def test_what_is_no_checkout_is_refused(tmp_path, store):
    folder = repository(tmp_path / "r", {"d/f": "f"})
    (tmp_path / "plain").mkdir()
    git(tmp_path, "init", "--quiet", "none")
    git(folder, "clone", "--quiet", "--bare", ".", tmp_path / "bare")
    for checkout, says in (("r/d", "not the root"), ("plain", "no git checkout"),
                           ("none", "no commit"), ("bare", "no git checkout"),
                           ("missing", "no such checkout"), ("r/d/f", "no such checkout")):
        assert says in refused(tmp_path / checkout, store)
    assert "is taken" in refused(folder, store, "/opt/apertus/x")


def test_a_full_disk_is_one_error(tmp_path, store, monkeypatch):
    folder = repository(tmp_path / "r", {"f": "f"})
    monkeypatch.setattr("tempfile.tempdir", "/dev/null/none")
    assert "cannot be written" in refused(folder, store) and "TMPDIR" in refused(folder, store)
