"""Uploads that an earlier run began: gone on with where the registry has acknowledged them."""

from __future__ import annotations

import pytest
from apertus_image.registry.push import send_blobs
from apertus_image.registry.state import State
from support.pushing import MIB, REPOSITORY, blob_of

BLOB = blob_of(5 * MIB + 10)


class Killed(BaseException):
    pass


def killed_after(count, bench, state):
    """Upload until so many chunks are acknowledged, and end there as a killed process does."""
    client = bench.client()
    send = client.send

    def counted(method, url, *rest, **more):
        if method == "PATCH" and f"_state={count}" in url:
            raise Killed
        return send(method, url, *rest, **more)

    client.send = counted
    with pytest.raises(Killed):
        bench.upload(BLOB, state=state, client=client)
    bench.registry.asked.clear()


def test_another_run_goes_on_where_the_last_one_was_killed(bench, tmp_path):  # case 12
    state = State(tmp_path / "state")
    killed_after(2, bench, state)
    done = bench.upload(BLOB, state=state)
    assert [each.method for each in bench.registry.asked][:2] == ["GET", "PATCH"]
    assert bench.registry.sent("PATCH")[0].headers["Content-Range"] == f"{2 * MIB}-{3 * MIB - 1}"
    assert (done.what, done.again, done.reread) == ("resumed", 0, 2 * MIB)
    assert BLOB.digest in bench.registry.blobs
    assert any("not sent again" in line for line in bench.said)
    assert list((tmp_path / "state").iterdir()) == []


def test_a_session_that_the_registry_forgot_is_begun_anew(bench, tmp_path):  # case 12
    state = State(tmp_path / "state")
    killed_after(2, bench, state)
    bench.registry.uploads.clear()
    assert bench.upload(BLOB, state=state).what == "uploaded"
    assert BLOB.digest in bench.registry.blobs


def test_two_runs_do_not_share_a_session(bench, tmp_path):
    state = State(tmp_path / "state")
    killed_after(2, bench, state)
    with state.note(bench.client().base, REPOSITORY, BLOB.digest):
        assert bench.upload(BLOB, state=state).what == "uploaded"
    assert bench.upload(BLOB, state=state).what == "resumed"


def test_a_damaged_note_is_no_note(bench, tmp_path):
    state = State(tmp_path / "state")
    killed_after(2, bench, state)
    for file in (tmp_path / "state").glob("*.json"):
        assert file.stat().st_mode & 0o077 == 0
        file.write_text('{"location": ')
    assert bench.upload(BLOB, state=state).what == "uploaded"


def test_killed_before_it_forgot_an_upload_the_next_run_does(bench, tmp_path):
    notes = tmp_path / "state"
    state = State(notes)
    killed_after(2, bench, state)
    assert {path.suffix for path in notes.iterdir()} == {".json", ".lock"}
    next(notes.glob("*.json")).with_suffix(".part").touch()  # killed while it noted
    assert bench.upload(BLOB).what == "uploaded"  # by somebody else
    with state.note(bench.client().base, REPOSITORY, BLOB.digest):  # which is at work
        again(bench, state)
        assert len(list(notes.iterdir())) == 3
    assert again(bench, state) == "exists"
    assert list(notes.iterdir()) == []
    # No folder of notes is made for blobs that are there.
    assert again(bench, State(tmp_path / "none")) == "exists"
    assert not (tmp_path / "none").exists()


def again(bench, state):
    return send_blobs([BLOB], REPOSITORY, bench.client(), state=state)[BLOB].what
