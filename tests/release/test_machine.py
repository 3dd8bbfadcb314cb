"""The state machine: what is done is not done again, what changed is, and nothing is half noted."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest
from apertus_image.errors import UserError
from apertus_image.release import slurm
from apertus_image.release.machine import go_on
from apertus_image.release.state import Folder


class Recorded:
    """A step that notes its runs."""

    def __init__(self, name, log, result=None, stays=True):
        self.name, self.log = name, log
        self.result, self.stays = result or {"of": name}, stays

    def run(self, results):
        self.log.append(self.name)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def holds(self, results, result):
        return self.stays


def three(log, **changed):
    return [changed.get(name) or Recorded(name, log) for name in ("a", "b", "c")]


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "release")
    folder.make()
    return folder


def test_what_is_done_is_not_done_again(folder):
    log = []
    assert go_on(three(log), folder) == {name: {"of": name} for name in "abc"}
    go_on(three(log), folder)
    assert log == ["a", "b", "c"]


def test_what_no_longer_holds_is_done_again_and_no_more(folder):
    log = []
    go_on(three(log), folder)
    go_on(three(log, b=Recorded("b", log, stays=False)), folder)
    assert log == ["a", "b", "c", "b"]


def test_another_result_makes_what_follows_anew(folder):
    log = []
    go_on(three(log), folder)
    go_on(three(log, a=Recorded("a", log, {"of": "other"}, stays=False)), folder)
    assert log == ["a", "b", "c", "a", "b", "c"]


def test_a_failure_keeps_what_was_done_before_it(folder):
    log = []
    with pytest.raises(UserError):
        go_on(three(log, b=Recorded("b", log, UserError("no"))), folder)
    assert folder.read("a") and not folder.read("b")
    go_on(three(log), folder)
    assert log == ["a", "b", "b", "c"] and folder.read("b").times["attempts"] == 2


def test_it_stops_after_the_last_step_asked_for(folder):
    log = []
    assert set(go_on(three(log), folder, only=["b", "a"])) == {"a", "b"} and log == ["a", "b"]


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"result": {}})])
def test_a_note_that_cannot_be_read_is_none(folder, content):
    log = []
    go_on(three(log), folder)
    (folder.path / "steps/b.json").write_text(content)
    go_on(three(log), folder)
    assert log == ["a", "b", "c", "b"]


def test_a_note_that_was_edited_is_none(folder):
    log = []
    go_on(three(log), folder)
    note = folder.path / "steps/b.json"
    note.write_text(note.read_text().replace('"of": "b"', '"of": "x"'))
    assert go_on(three(log), folder)["b"] == {"of": "b"}
    assert log == ["a", "b", "c", "b"]


@pytest.mark.parametrize("content", ["", "[]", '{"attempts": 1}', '{"attempts": 1, "started": ""}'])
def test_a_count_of_attempts_that_cannot_be_read_begins_anew(folder, content):
    folder.begun("b").write_text(content)
    assert folder.attempted("b") == {}
    go_on(three([]), folder)
    assert folder.read("b").times["attempts"] == 1


@pytest.mark.parametrize("content", ["{", "{}", '[{"x": 1}]', '[{"job": 1, "steps": null}]'])
def test_jobs_that_cannot_be_read_are_none(folder, content):
    (folder.path / "jobs.json").write_text(content)
    assert slurm.states(folder) == {}


def test_a_folder_that_is_gone_or_full_is_one_error_and_it_goes_on_after(folder):
    log = []
    gone = Recorded("b", log, OSError(errno.ENOSPC, "No space left on device", "/s/x"))
    with pytest.raises(UserError, match="the step b could not be finished") as caught:
        go_on(three(log, b=gone), folder)
    assert caught.value.where == "/s/x" and caught.value.got == "No space left on device"
    (folder.path / "steps").rename(folder.path / "aside")
    with pytest.raises(UserError, match="the step a could not be finished"):
        go_on(three(log), folder)
    (folder.path / "aside").rename(folder.path / "steps")
    go_on(three(log), folder)
    assert log == ["a", "b", "b", "c"]


def test_a_lock_that_cannot_be_made_is_one_error(folder):
    (folder.path / "lock").mkdir()
    with pytest.raises(UserError, match="cannot be used"), folder.locked():
        pass


def test_two_processes_do_not_work_on_one_release(folder):
    code = ("import sys; from pathlib import Path; from apertus_image.release.state import Folder\n"
            "with Folder(Path(sys.argv[1])).locked(): print('in', flush=True); sys.stdin.read()")
    other = subprocess.Popen([sys.executable, "-c", code, folder.path], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert other.stdout.readline() == b"in\n"
    with pytest.raises(UserError, match="another process works") as caught:
        with folder.locked():
            pass
    assert str(other.pid) in str(caught.value)
    other.kill()
    other.wait()
    with folder.locked():  # the kernel has freed it
        pass
