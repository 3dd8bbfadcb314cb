"""Downloads: resumed, retried, and right or not there at all (case 42)."""

from __future__ import annotations

import errno
import hashlib
import itertools
from pathlib import Path

import pytest
import requests
from apertus_image.errors import UserError
from apertus_image.fetch.download import DiskFull, Pin, Unavailable, download
from apertus_image.fetch.web import Failed
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


def test_a_damaged_part_is_fetched_anew(web, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/x.whl.part").write_bytes(b"wrong" * 100)
    web.replies["/x"] = [server.ranged(BODY)]
    moved = []
    assert bring(tmp_path, f"{web.url}/x", moved=moved).read_bytes() == BODY
    assert [asked[2] for asked in web.asked] == ["bytes=500-", None]
    assert sum(moved) == len(BODY)


def test_one_places_wrong_start_does_not_spoil_the_next(web, tmp_path):
    web.replies["/bad"] = [server.ranged(bytes(len(BODY)), 900_000), server.status(404)]
    web.replies["/good"] = [server.ranged(BODY)]
    moved = []
    found = bring(tmp_path, f"{web.url}/bad", f"{web.url}/good", moved=moved)
    assert found.read_bytes() == BODY and sum(moved) == len(BODY)


def test_a_slow_line_is_gone_on_with_while_it_gets_on(web, tmp_path, monkeypatch):
    monkeypatch.setattr("apertus_image.fetch.download.CHUNK", 200_000)
    web.replies["/x"] = [server.ranged(BODY, 300_000)]
    moved = []
    assert bring(tmp_path, f"{web.url}/x", moved=moved).read_bytes() == BODY
    assert len(web.asked) > 4 and sum(moved) == len(BODY)


def test_another_size_is_not_even_read(web, tmp_path):
    web.replies["/x"] = [server.body(BODY + b"x")]
    moved = []
    with pytest.raises(Unavailable, match=f"wrong content: {len(BODY) + 1} bytes"):
        bring(tmp_path, f"{web.url}/x", moved=moved)
    assert moved == [] and len(web.asked) == 1


def test_a_body_without_end_is_cut_off(web, tmp_path):
    web.replies["/x"] = [server.endless(BODY)]
    moved = []
    with pytest.raises(Unavailable, match=f"more than {len(BODY)} bytes"):
        bring(tmp_path, f"{web.url}/x", moved=moved)
    assert sum(moved) == 0 and max(itertools.accumulate(moved)) <= len(BODY)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("headers", [{}, {"Content_Range": f"bytes 7-9/{len(BODY)}"}],
                         ids=["no Content-Range", "another range"])
def test_a_range_that_is_not_the_one_asked_for(web, tmp_path, headers):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/x.whl.part").write_bytes(BODY[:1000])
    web.replies["/x"] = [server.partial(BODY[7:10], **headers), server.ranged(BODY)]
    assert bring(tmp_path, f"{web.url}/x").read_bytes() == BODY
    assert [asked[2] for asked in web.asked] == ["bytes=1000-", None]


def test_a_range_beyond_the_servers_file(web, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/x.whl.part").write_bytes(BODY[:1000])
    web.replies["/x"] = [server.status(416), server.body(BODY[:900])]
    with pytest.raises(Unavailable, match="wrong content: 900 bytes"):
        bring(tmp_path, f"{web.url}/x")


def test_a_redirection_is_followed(web, tmp_path):
    web.replies["/x"] = [server.status(302, Location="/y")]
    web.replies["/y"] = [server.ranged(BODY)]
    assert bring(tmp_path, f"{web.url}/x").read_bytes() == BODY


def test_an_index_that_fails_is_told_with_the_rest(web, tmp_path):
    with pytest.raises(Unavailable) as error:
        bring(tmp_path, Failed("HTTP 503, after 4 attempts", "http://me:secret@index/x/"),
              f"{web.url}/x")
    assert "http://index/x/: HTTP 503, after 4 attempts" in str(error.value)
    assert f"{web.url}/x: HTTP 404" in str(error.value)


def test_what_progress_raises_stops_and_keeps_the_part(web, tmp_path):
    web.replies["/x"] = [server.ranged(BODY)]

    def stop(count):
        raise KeyboardInterrupt

    with requests.Session() as session, pytest.raises(KeyboardInterrupt):
        download(session, PIN, [f"{web.url}/x"], tmp_path, stop)
    assert 0 < (tmp_path / "x.whl.part").stat().st_size < len(BODY)


def test_absent_and_unreachable_are_told_apart(web, tmp_path):
    with pytest.raises(Unavailable) as error:
        bring(tmp_path, f"{web.url}/x", "http://127.0.0.1:9/x")
    assert error.value.gone
    with pytest.raises(Unavailable, match="connection refused, after 4 attempts") as error:
        bring(tmp_path, "http://127.0.0.1:9/x")
    assert not error.value.gone


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
    with pytest.raises(DiskFull, match="disk is full"):
        bring(tmp_path, f"{web.url}/x", f"{web.url}/x")
    assert len(web.asked) == 1
