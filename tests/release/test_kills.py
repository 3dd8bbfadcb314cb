"""What the tests of killed releases look at is seen when it is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal

import pytest
from support import kills
from support.kills import Aim, adopting, run
from support.remains import Places, Undisturbed, moments


def told(*lines, then="sleep 60"):
    """A release that says lines and goes on."""
    script = "\n".join([*(f'echo "{line}" >&2' for line in lines), then])
    return ["sh", "-c", script]


def test_a_kill_comes_when_it_was_to_come():
    with adopting():
        done = run(told("prefetch …", "prefetch: done in 0 s", "build: done before", "push …"),
                   os.environ, Aim("push", 0.2))
    assert (done.code, done.step, done.before) == (-signal.SIGKILL, "push", ["build"])
    assert done.killed - done.begun["push"] >= 0.2 and list(done.lengths) == ["prefetch"]
    assert [process.name for process in done.running] == ["sleep"]


def test_a_later_step_does_not_get_beyond_its_line():
    with adopting():
        done = run(told("build …", "build: done in 0 s", "push …"), os.environ, Aim("build", 60))
    assert (done.code, done.step) == (-signal.SIGKILL, "push")


def test_a_moment_is_waited_for(tmp_path):
    with adopting():
        done = run(told("record …", then=f"sleep 0.3; touch {tmp_path}/file; sleep 60"),
                   os.environ, Aim("record", until=lambda: (tmp_path / "file").exists))
    assert (done.code, done.step) == (-signal.SIGKILL, "record")
    assert (tmp_path / "file").exists()


def test_one_that_ends_before_is_no_kill():
    with adopting():
        done = run(told("push …", then="echo file"), os.environ, Aim("push", 60))
    assert (done.code, done.killed, done.output) == (0, None, "file")


def test_a_process_that_is_left_over_is_a_fault(monkeypatch):
    monkeypatch.setattr(kills, "LETTING_GO", 0.3)
    script = told("push …", then="setsid sleep 60 >/dev/null 2>&1 & sleep 60")
    with pytest.raises(AssertionError, match="left over.*sleep"):
        with adopting():
            done = run(script, os.environ, Aim("push", 0.5))
    left, = (process for process in done.running if process.lives())
    os.kill(left.pid, signal.SIGKILL)
    assert done.gone >= 0.3 and not left.lives()


@pytest.fixture
def places(tmp_path):
    at = tmp_path / "site"
    made = Places(at / "published", at / "scratch", at / "registry", at / "state")
    layout = made.layout
    for folder in (made.published, made.work.with_name("image-1") / "files"):
        (folder / "v").mkdir(parents=True)
        (folder / "x.sqsh").write_bytes(b"image")
        (folder / "v/lint.json").write_text("{}")
        (folder / "x.attestation.json").write_text("{}")
    (made.work / "steps").mkdir()
    (made.work / "steps/push.json").write_text("{}")
    blob = layout.blob(f"sha256:{hashlib.sha256(b'layer').hexdigest()}")
    tag = layout.tag("team/image", "1")
    for file, text in ((blob, "layer"), (tag, f"sha256:{'0' * 64}")):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    made.state.mkdir()
    return made


def spoil(file, data="other"):
    file.unlink()
    file.write_text(data)


@pytest.mark.parametrize(("spoilt", "found"), [
    (lambda its: None, None),
    (lambda its: (its.published / "x.attestation.json").write_text('{"other": "maker"}'), None),
    (lambda its: (its.published / ".x.sqsh.0.part").write_text("ima"), None),
    (lambda its: shutil.rmtree(its.layout.tag("team/image", "1").parents[2]), None),
    (lambda its: spoil(its.published / "x.sqsh", "imag"), "x.sqsh: not as in"),
    (lambda its: spoil(its.work / "files/v/lint.json"), "lint.json: not as in"),
    (lambda its: (its.published / "more").write_text(""), "more: not as in"),
    (lambda its: spoil(its.layout.blob(its.layout.blobs()[0])), "other bytes in the registry"),
    (lambda its: (its.published / "v/lint.json").unlink(), "a tag is there before"),
])
def test_what_is_not_whole_is_a_fault(places, spoilt, found):
    undisturbed = Undisturbed(places)
    spoilt(places)
    faults = undisturbed.faults(places)
    assert not faults if found is None else any(found in fault for fault in faults)


@pytest.mark.parametrize("note", ["work/steps/push.json", "published/x.attestation.json",
                                  "state/upload.json"])
def test_a_note_that_is_cut_is_a_fault(places, note):
    undisturbed = Undisturbed(places)
    folder, name = note.split("/", 1)
    (getattr(places, folder) / name).write_text('{"loc')
    with pytest.raises(json.JSONDecodeError):
        undisturbed.faults(places)


def test_what_is_left_over_is_found(places):
    assert places.left_over() == [] and places.in_uploads() == 0
    left = [places.published / "v/.lint.json.0.lock", places.work / "files/.x.sqsh.0.lock",
            places.work / "steps/push.begun", places.state / "1.lock"]
    for file in left:
        file.touch()
    upload = places.layout.tag("team/image", "1").parents[4] / "_uploads/1/data"
    upload.parent.mkdir(parents=True)
    upload.write_text("lay")
    assert sorted(places.left_over()) == sorted(left) and places.in_uploads() == 3
    words = places.state_in_words()
    assert "1 blobs, 5 B; 3 B in uploads" in words and "3 published files; the tag" in words


def test_the_moments_come_with_the_next_name(places):
    files = {"push": places.layout.blob(f"sha256:{'1' * 64}"),
             "record": places.work / "files/a.json", "export": places.work / "files/y.sqsh",
             "publish": places.published / "y"}
    for step, file in files.items():
        come = moments(places)[step].until()
        assert not come()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        assert come()
