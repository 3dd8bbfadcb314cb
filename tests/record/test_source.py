"""The state of a checkout: everything that is not the commit's is found and named (case 32)."""

from __future__ import annotations

import shutil

import pytest
from apertus_image.errors import UserError
from apertus_image.record.source import state
from support.checkouts import cloned, commit, git, nested


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a clone, and what it was cloned from."""
    folder = tmp_path_factory.mktemp("made")
    cloned(nested(folder), folder / "clone")
    return folder


@pytest.fixture
def clone(made, tmp_path):
    """A clone with a submodule, which has one itself, all checked out."""
    return shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True) / "clone"


def head(folder):
    return git(folder, "rev-parse", "HEAD")


def test_a_clean_checkout_names_every_submodules_commit(clone):
    found = state(clone)
    assert found.findings == [] and not found.dirty
    assert found.commit == head(clone)
    assert found.submodules == {"mod": head(clone / "mod"),
                                "mod/deep": head(clone / "mod/deep")}


def write(path, text="other\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commit_in(folder):
    write(folder / "new")
    commit(folder, "second")


def assume_unchanged(clone):
    git(clone, "update-index", "--assume-unchanged", "a.py")
    write(clone / "a.py")


def ignored_by_the_clone_alone(clone):
    (clone / ".git/info/exclude").write_text("hidden\n")
    write(clone / "hidden")


def staged(clone):
    write(clone / "a.py")
    git(clone, "add", "a.py")


VARIANTS = {
    "a modified file": (lambda c: write(c / "a.py"), "clone/a.py", "differs from the commit"),
    "a staged file": (staged, "clone/a.py", "differs from the commit"),
    "a removed file": (lambda c: (c / "a.py").unlink(), "clone/a.py", "differs from the commit"),
    "a mode": (lambda c: (c / "a.py").chmod(0o755), "clone/a.py", "differs from the commit"),
    "an untracked file": (lambda c: write(c / "x/new"), "clone/x/new", "not tracked"),
    "a file that only this clone ignores": (
        ignored_by_the_clone_alone, "clone/hidden", "not tracked"),
    "a file that git overlooks": (assume_unchanged, "clone/a.py", "told to overlook"),
    "a modified file of a submodule": (
        lambda c: write(c / "mod/i.py"), "clone/mod/i.py",
        r"differs from the commit \(submodule mod"),
    "an untracked file of a submodule": (
        lambda c: write(c / "mod/new"), "clone/mod/new", r"not tracked \(submodule mod"),
    "a modified file of a submodule's submodule": (
        lambda c: write(c / "mod/deep/d.py"), "mod/deep/d.py", "differs from the commit"),
    "a submodule at another commit": (
        lambda c: commit_in(c / "mod"), "clone/mod", "at another commit"),
    "a submodule that is not checked out": (
        lambda c: git(c, "submodule", "deinit", "-q", "-f", "mod"), "clone/mod",
        "not checked out"),
    "a submodule's submodule that is not checked out": (
        lambda c: git(c / "mod", "submodule", "deinit", "-q", "-f", "deep"),
        "mod/deep", r"not checked out \(submodule mod"),
    "a submodule's folder that is gone": (
        lambda c: shutil.rmtree(c / "mod"), "clone/mod", "not checked out"),
    "a submodule's commit that is only staged": (
        lambda c: (commit_in(c / "mod"), git(c, "add", "mod")), "clone/mod",
        "changed but not committed"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_not_the_commits_is_named(clone, variant):
    change, where, what = VARIANTS[variant]
    change(clone)
    found = state(clone)
    assert found.dirty
    named = [str(each) for each in found.findings if str(each.where).endswith(where)]
    assert named, found.findings
    with pytest.raises(UserError, match=what):
        raise UserError("\n".join(named))
    assert all(each.next_step for each in found.findings)


def test_every_finding_is_listed(clone):
    write(clone / "a.py")
    write(clone / "one")
    write(clone / "mod/two")
    assert len(state(clone).findings) == 3


def test_ignored_files_and_a_users_settings_change_nothing(clone, monkeypatch, tmp_path):
    write(clone / "x.log")
    write(clone / "mod/x.log")
    write(clone / "hidden")
    (tmp_path / "ignore").write_text("hidden\n")
    (tmp_path / "config").write_text(
        f"[core]\nexcludesFile = {tmp_path}/ignore\n[status]\nshowUntrackedFiles = no\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert [each.where.name for each in state(clone).findings] == ["hidden"]


def test_looking_changes_nothing(clone):
    (clone / "a.py").touch()
    before = (clone / ".git/index").stat()
    state(clone)
    after = (clone / ".git/index").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_worktree_has_the_commits_state_too(clone, tmp_path):
    git(clone, "worktree", "add", "-q", str(tmp_path / "tree"), "HEAD")
    git(tmp_path / "tree", "submodule", "update", "-q", "--init", "--recursive")
    assert state(tmp_path / "tree") == state(clone)


@pytest.mark.parametrize("what", ["no repository", "a folder inside one", "no commit"])
def test_what_is_no_checkout_is_refused(clone, tmp_path, what):
    folder = {"no repository": tmp_path / "plain", "a folder inside one": clone / "x",
              "no commit": tmp_path / "empty"}[what]
    folder.mkdir()
    if what == "no commit":
        git(folder, "init", "-q")
    with pytest.raises(UserError, match="no commit yet" if what == "no commit" else "top folder"):
        state(folder)
