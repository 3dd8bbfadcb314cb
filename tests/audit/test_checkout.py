"""Two checkouts of one commit, alike to git and otherwise not."""

from __future__ import annotations

import os

import pytest
from apertus_image.audit.checkout import clone, commit_of, rewritten
from apertus_image.audit.scratch import give, umask
from apertus_image.errors import UserError
from apertus_image.release.git import Git
from support.checkouts import commit, git, repository

FILES = {"a.py": "a = 1\n", "bin/run": "#!/bin/sh\n", "d/e/f": "f\n", "link": "-> a.py"}


def test_a_rewritten_clone_is_clean_and_has_other_times_and_modes(tmp_path):
    project = repository(tmp_path / "project", FILES)
    plain = clone(project, commit_of(project, "HEAD"), tmp_path / "one/plain")
    with umask(0o077):
        other = rewritten(plain, tmp_path / "two/other")
    assert Git(other).run("status", "--porcelain") == b""
    assert Git(other).head() == commit_of(project, "main")
    assert not plain.exists() and os.readlink(other / "link") == "a.py"
    assert {name: (other / name).stat().st_mode & 0o777 for name in ("a.py", "bin/run", "d")} == {
        "a.py": 0o600, "bin/run": 0o700, "d": 0o700}
    assert (other / "d/e/f").stat().st_mtime == 1_000_000_000


def test_an_older_commit_can_be_had_and_no_object_is_shared(tmp_path):
    project = repository(tmp_path / "project", FILES)
    old = commit_of(project, "HEAD")
    (project / "a.py").write_text("a = 2\n")
    commit(project)
    made = clone(project, old, tmp_path / "clone")
    assert (made / "a.py").read_text() == "a = 1\n"
    assert all(file.stat().st_nlink == 1 for file in (made / ".git/objects").rglob("*")
               if file.is_file())


def test_a_commit_on_no_branch_and_a_worktree_are_as_good(tmp_path):
    project = repository(tmp_path / "project", FILES)
    git(project, "worktree", "add", "--quiet", "--detach", tmp_path / "tree")
    (tmp_path / "tree/a.py").write_text("a = 3\n")
    lost = commit(tmp_path / "tree")
    made = clone(tmp_path / "tree", lost, tmp_path / "clone")
    assert (made / "a.py").read_text() == "a = 3\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: needs root")
def test_a_clone_of_another_users_is_as_good(tmp_path):  # trap 10
    project = repository(tmp_path / "project", FILES)
    give(project, 4242)
    made = clone(project, commit_of(project, "HEAD"), tmp_path / "clone")
    assert (made / "a.py").stat().st_uid == os.geteuid()


def test_a_revision_that_is_none_is_one_clear_error(tmp_path):
    project = repository(tmp_path / "project", FILES)
    for wrong in ("no-such", "--all", "HEAD:a.py"):
        with pytest.raises(UserError, match="no such revision"):
            commit_of(project, wrong)
