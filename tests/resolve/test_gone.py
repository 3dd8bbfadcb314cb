"""Packages that mirrors have dropped, looked for on servers and in folders of our own."""

from __future__ import annotations

import functools
import http.server
import threading

import pytest
from apertus_image.errors import UserError
from apertus_image.resolve.compare import differences
from apertus_image.resolve.gone import gone, replaced
from support import archive

OLD, NEW = "Sat, 21 Nov 2026 09:15:44 UTC", "Sat, 16 Jan 2027 09:40:00 UTC"


def pin(name, version="1", **more):
    each = archive.package(name, version)
    return {"name": name, "version": version, "architecture": "amd64", "path": each["Filename"],
            "sha256": each["SHA256"], "size": int(each["Size"])} | more


def lock(*pins, date=OLD):
    return {"date": date, "amd64": list(pins)}


@pytest.fixture
def web(tmp_path):
    """A server of a folder; `broken` holds the paths that it answers with 503."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        broken: set = set()

        def send_head(self):
            if self.path in self.broken:
                return self.send_error(503)
            return super().send_head()

        def log_message(self, *_):
            pass

    root = tmp_path / "web"
    root.mkdir()
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=root))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield root, f"http://127.0.0.1:{server.server_address[1]}", Handler.broken
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def mirrors(monkeypatch):
    def use(*places):
        monkeypatch.setenv("APERTUS_DEBIAN_MIRRORS", " ".join(map(str, places)))

    monkeypatch.delenv("APERTUS_DEBIAN_SNAPSHOT", raising=False)
    return use


def test_what_a_server_no_longer_has_is_gone(web, mirrors):
    root, url, _ = web
    archive.fill(root, [archive.package("b", "1")])
    mirrors(url)
    assert gone(lock(pin("a"), pin("b")), "amd64") == {"a"}


def test_what_a_folder_has_is_not(web, mirrors, tmp_path):
    _, url, _ = web
    archive.fill(tmp_path / "folder", [archive.package("a", "1")])
    mirrors(url, tmp_path / "folder")
    assert gone(lock(pin("a"), pin("b")), "amd64") == {"b"}


def test_another_file_under_the_name_is_not_the_package(web, mirrors):
    root, url, _ = web
    archive.fill(root, [archive.package("a", "1") | {"Size": "7"}])
    mirrors(url)
    assert gone(lock(pin("a")), "amd64") == {"a"}


def test_a_mirror_out_of_reach_says_nothing(web, mirrors):
    root, url, _ = web
    archive.fill(root, [archive.package("b", "1")])
    mirrors("http://127.0.0.1:1/debian", url)
    with pytest.raises(UserError, match="cannot be said to be gone") as error:
        gone(lock(pin("a"), pin("b")), "amd64")
    assert error.value.got == "a" and "APERTUS_DEBIAN_MIRRORS" in error.value.next_step


def test_neither_does_one_out_of_order(web, mirrors):
    root, url, broken = web
    archive.fill(root, [archive.package("a", "1")])
    broken.add("/" + pin("a")["path"])
    mirrors(url)
    with pytest.raises(UserError, match="cannot be said to be gone"):
        gone(lock(pin("a")), "amd64")


def test_the_lost_alone_are_pinned_anew_and_say_of_which_release():
    old = lock(pin("a"), pin("b"), pin("c"))
    fresh = lock(pin("a", "2"), pin("b", "2"), pin("c", "2"), date=NEW)
    new = replaced(old, {"amd64": {"b"}}, lambda: fresh)
    assert new == lock(pin("a"), pin("b", "2", date=NEW), pin("c"))
    assert differences(old, new) == ["amd64:   b 1 -> 2"]


def test_what_the_new_versions_need_comes_and_what_nothing_needs_goes():
    old = lock(pin("a"), pin("z"))
    fresh = lock(pin("a", "2"), pin("b"), date=NEW)
    new = replaced(old, {"amd64": {"a", "z"}}, lambda: fresh)
    assert differences(old, new) == ["amd64:   a 1 -> 2", "amd64: + b 1", "amd64: - z 1"]


def test_within_a_release_no_date_is_needed():
    new = replaced(lock(pin("a")), {"amd64": {"a"}}, lambda: lock(pin("a", "2")))
    assert new == lock(pin("a", "2"))


def test_nothing_gone_nothing_done():
    old = lock(pin("a"))
    assert replaced(old, {"amd64": set()}, lambda: pytest.fail("resolved")) is old
