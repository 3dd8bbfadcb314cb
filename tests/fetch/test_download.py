"""Downloads: resumed, retried, and right or not there at all (case 42)."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest
import requests
from apertus_image.errors import UserError
from apertus_image.fetch.download import Pin, download, redacted
from support import server

BODY = bytes(range(256)) * 8192
PIN = Pin("x.whl", hashlib.sha256(BODY).hexdigest(), len(BODY))


@pytest.fixture
def web():
    with server.serve() as script:
        yield script


def bring(tmp_path, *places, **options):
    waited = options.setdefault("waited", [])
    moved = options.setdefault("moved", [])
    with requests.Session() as session:
        return download(session, PIN, places, tmp_path / "cache", moved.append, waited.append)


def test_a_file_arrives_whole(web, tmp_path):
    web.replies["/x"] = [server.ranged(BODY)]
    moved = []
    assert bring(tmp_path, f"{web.url}/x", moved=moved).read_bytes() == BODY
    assert sum(moved) == len(BODY)
    assert not list((tmp_path / "cache").glob("*.part"))


def test_a_cut_connection_is_gone_on_with(web, tmp_path):
    web.replies["/x"] = [server.cut(BODY, 1_500_000), server.ranged(BODY)]
    assert bring(tmp_path, f"{web.url}/x").read_bytes() == BODY
    first, second = (asked[2] for asked in web.asked)
    held = int(second.removeprefix("bytes=").rstrip("-"))
    assert first is None and 1_400_000 < held <= 1_500_000


def test_a_killed_runs_part_is_gone_on_with(web, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/x.whl.part").write_bytes(BODY[:1000])
    web.replies["/x"] = [server.ranged(BODY)]
    assert bring(tmp_path, f"{web.url}/x").read_bytes() == BODY
    assert web.asked[0][2] == "bytes=1000-"


def test_a_server_that_ignores_ranges(web, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/x.whl.part").write_bytes(BODY[:1000])
    web.replies["/x"] = [server.body(BODY)]
    assert bring(tmp_path, f"{web.url}/x").read_bytes() == BODY


def test_a_damaged_part_is_not_kept(web, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/x.whl.part").write_bytes(b"wrong" * 100)
    web.replies["/x"] = [server.ranged(BODY)]
    with pytest.raises(UserError):
        bring(tmp_path, f"{web.url}/x")
    assert bring(tmp_path, f"{web.url}/x").read_bytes() == BODY


def test_a_file_that_is_there_is_not_asked_for(web, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/x.whl").write_bytes(BODY)
    assert bring(tmp_path, f"{web.url}/x").read_bytes() == BODY
    assert web.asked == []


def test_a_dead_first_place_and_a_live_second(web, tmp_path):  # case 42
    web.replies["/new/x"] = [server.ranged(BODY)]
    dead = "http://127.0.0.1:9/x"
    assert bring(tmp_path, dead, f"{web.url}/old/x", f"{web.url}/new/x").read_bytes() == BODY


def test_the_hash_decides_and_every_place_is_told(web, tmp_path):  # case 42
    web.replies["/a"] = [server.body(b"no" * (len(BODY) // 2))]
    web.replies["/b"] = [server.status(403)]
    with pytest.raises(UserError) as error:
        bring(tmp_path, f"{web.url}/a", f"{web.url}/b", f"{web.url}/c", str(tmp_path / "none"))
    said = str(error.value)
    assert f"{web.url}/a: wrong content: sha256" in said
    assert f"{web.url}/b: HTTP 403" in said and f"{web.url}/c: HTTP 404" in said
    assert "no such file" in said and PIN.sha256 in said
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_busy_server_is_waited_for(web, tmp_path):
    web.replies["/x"] = [server.status(503, Retry_After="7"), server.status(429),
                         server.ranged(BODY)]
    waited = []
    assert bring(tmp_path, f"{web.url}/x", waited=waited).read_bytes() == BODY
    assert waited[0] >= 7 and 0 < waited[1] < 60


def test_an_hours_wait_is_not_waited(web, tmp_path):
    web.replies["/x"] = [server.status(503, Retry_After="3600")]
    waited = []
    with pytest.raises(UserError, match="cannot be had"):
        bring(tmp_path, f"{web.url}/x", waited=waited)
    assert waited == []


def test_attempts_are_bounded(web, tmp_path):
    web.replies["/x"] = [server.status(502)]
    with pytest.raises(UserError, match="after 4 attempts"):
        bring(tmp_path, f"{web.url}/x")
    assert len(web.asked) == 4


def test_a_folder_is_a_place(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/x.whl").write_bytes(BODY)
    assert bring(tmp_path, f"file://{tmp_path}/site/x.whl").read_bytes() == BODY


def test_no_place_at_all(tmp_path):
    with pytest.raises(UserError, match="no place to ask"):
        bring(tmp_path)


def test_a_full_disk_is_no_fault_of_the_place(web, tmp_path, monkeypatch):
    web.replies["/x"] = [server.ranged(BODY)]
    real = Path.open

    def full(self, mode="r", *arguments, **options):
        if self.suffix == ".part" and mode != "rb":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(UserError, match="disk is full"):
        bring(tmp_path, f"{web.url}/x", f"{web.url}/x")
    assert len(web.asked) == 1


def test_passwords_are_not_told():
    assert redacted("https://me:secret@host:8443/x?y=1") == "https://host:8443/x?y=1"
    assert redacted("/a/folder") == "/a/folder"
