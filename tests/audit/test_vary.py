"""The second build's surroundings: other ones, truly entered, and told as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apertus_image.audit.vary import Surroundings, vary, within
from apertus_image.errors import UserError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not run: needs root")


def rows(varied):
    return {each.what: each for each in varied}


def test_every_variable_of_this_process_is_another_there(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("APERTUS_SOMETHING", "1")
    around, _ = vary(tmp_path, tmp_path / "home")
    there = within(around, lambda: dict(os.environ))
    assert there == around.variables and "APERTUS_SOMETHING" not in there
    assert there["TZ"] != "UTC" and there["PYTHONHASHSEED"] != os.environ.get("PYTHONHASHSEED")


def test_the_work_is_done_with_another_umask_and_on_one_cpu(tmp_path):
    around, varied = vary(tmp_path, tmp_path / "home")
    mask, cpus = within(around, lambda: (os.umask(0), os.sched_getaffinity(0)))
    assert f"{mask:04o}" == rows(varied)["umask"].second != rows(varied)["umask"].first
    assert len(cpus) == 1


@needs_root
def test_root_becomes_another_user_without_rights(tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    around, varied = vary(tmp_path, tmp_path / "home")
    if rows(varied)["user"].why:
        pytest.skip(f"not run: {rows(varied)['user'].why}")
    assert within(around, lambda: (os.getuid(), os.getgid(), os.getgroups())) == (
        around.uid, around.uid, [])


@needs_root
def test_a_folder_that_others_cannot_reach_is_said_to_keep_the_user(tmp_path):
    (tmp_path / "scratch").mkdir(mode=0o755)
    tmp_path.chmod(0o700)
    around, varied = vary(tmp_path / "scratch", tmp_path / "scratch/home")
    assert around.uid is None and "cannot reach" in rows(varied)["user"].why


def test_what_others_than_root_cannot_vary_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    around, varied = vary(tmp_path, tmp_path / "home")
    assert around.uid is None and "only root" in rows(varied)["user"].why


def test_an_unusual_umask_becomes_the_usual_one(tmp_path):
    before = os.umask(0o077)
    try:
        around, _ = vary(tmp_path, tmp_path / "home")
    finally:
        os.umask(before)
    assert around.umask == 0o022


def nix(folder: Path, version: str) -> Path:
    folder.mkdir()
    (folder / "nix").write_text(f"#!/bin/sh\necho 'nix (Nix) {version}'\n")
    (folder / "nix").chmod(0o755)
    return folder


def test_a_second_nix_on_the_path_comes_first_there(tmp_path, monkeypatch):
    one, other = nix(tmp_path / "one", "2.8.0"), nix(tmp_path / "other", "2.26.3")
    monkeypatch.setenv("PATH", f"{one}:{other}:{os.environ['PATH']}")
    around, varied = vary(tmp_path, tmp_path / "home")
    assert (rows(varied)["Nix"].first, rows(varied)["Nix"].second) == ("2.8.0", "2.26.3")
    assert around.variables["PATH"].startswith(f"{other}:{one}:")


def test_a_second_nix_is_named_by_its_folder_or_program(tmp_path, monkeypatch):
    one, other = nix(tmp_path / "one", "2.8.0"), nix(tmp_path / "other", "2.26.3")
    monkeypatch.setenv("PATH", f"{one}:{os.environ['PATH']}")
    for named in (other, other / "nix"):
        assert rows(vary(tmp_path, tmp_path / "home", named)[1])["Nix"].second == "2.26.3"
    assert "2.8.0 too" in rows(vary(tmp_path, tmp_path / "home", one)[1])["Nix"].why
    with pytest.raises(UserError, match="this is no Nix"):
        vary(tmp_path, tmp_path / "home", tmp_path)


def test_an_error_there_is_the_same_error_here():
    def fail() -> None:
        raise UserError("it broke", where="there", next_step="mend it")

    with pytest.raises(UserError, match="it broke") as caught:
        within(Surroundings({}), fail)
    assert (caught.value.where, caught.value.next_step) == ("there", "mend it")


def test_a_killed_step_is_an_error():
    with pytest.raises(UserError, match="without a result"):
        within(Surroundings({}), lambda: os.kill(os.getpid(), 9))
