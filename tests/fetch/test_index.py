"""Indexes of both kinds, and file names decoded once (case 29)."""

from __future__ import annotations

import json

import pytest
import requests
from apertus_image.errors import UserError
from apertus_image.fetch.index import JSON, find, project_files
from apertus_image.pins.names import store_name
from packaging.utils import parse_wheel_filename
from support import server

NAME = "torch-2.11.0+cu130-cp313-cp313-manylinux_2_28_x86_64.whl"
ESCAPED = NAME.replace("+", "%2B")


@pytest.fixture
def web():
    with server.serve() as script:
        yield script


def test_html_with_an_escaped_local_version(web):  # case 29
    page = (f'<a href="../../files/{ESCAPED}#sha256={"a" * 64}" data-core-metadata="true">x</a>'
            '<a href="/files/old.tar.gz" data-yanked="">y</a>')
    web.replies["/simple/torch/"] = [server.body(page.encode(), "text/html")]
    with requests.Session() as session:
        first, second = project_files(session, [f"{web.url}/simple"], "torch")
    assert first.name == NAME and first.sha256 == "a" * 64
    assert first.url == f"{web.url}/files/{ESCAPED}"
    assert first.metadata_url == f"{first.url}.metadata" and second.yanked
    assert str(parse_wheel_filename(first.name)[1]) == "2.11.0+cu130"
    assert store_name(first.name) == NAME


def test_json(web):
    page = {"files": [{"filename": NAME, "url": f"/files/{ESCAPED}", "size": 5, "yanked": False,
                       "hashes": {"sha256": "b" * 64}, "core-metadata": {"sha256": "c"}}]}
    web.replies["/simple/torch/"] = [server.body(json.dumps(page).encode(), JSON)]
    with requests.Session() as session:
        (file,) = project_files(session, [f"{web.url}/simple"], "torch")
    assert (file.name, file.size, file.sha256) == (NAME, 5, "b" * 64)


def asked(web, *pages, sha256="b" * 64, name=NAME):
    with requests.Session() as session:
        return list(find(session, [f"{web.url}/{each}" for each in pages], name, sha256,
                         lambda _: None))


def test_a_page_that_does_not_have_the_file_says_so(web):
    page = {"files": [{"filename": NAME, "url": ESCAPED, "hashes": {"sha256": "b" * 64}}]}
    web.replies["/torch/"] = [server.body(json.dumps(page).encode(), JSON)]
    web.replies["/busy/"] = [server.status(503)]
    web.replies["/bad/"] = [server.body(b"{", JSON)]
    assert asked(web, "torch/") == [f"{web.url}/torch/{ESCAPED}"]
    said = asked(web, "torch/", "none/", "busy/", "bad/", name="other.whl")
    assert [(str(each), each.place, each.gone) for each in said] == [
        ("does not name the file", f"{web.url}/torch/", True),
        ("HTTP 404", f"{web.url}/none/", True),
        ("HTTP 503, after 4 attempts", f"{web.url}/busy/", False),
        ("not an index page", f"{web.url}/bad/", True)]


def test_another_hash_need_not_be_fetched(web):
    page = f'<a href="{ESCAPED}#sha256={"c" * 64}">x</a><a href="/b/{ESCAPED}">x</a>'
    web.replies["/torch/"] = [server.body(page.encode(), "text/html")]
    wrong, found = asked(web, "torch/")
    assert str(wrong) == f"wrong content: sha256 {'c' * 64}" and wrong.gone
    assert found == f"{web.url}/b/{ESCAPED}"


def test_the_second_index_is_asked_where_the_first_fails(web):
    web.replies["/b/p/"] = [server.body(b'<a href="p-1.whl">p</a>', "text/html")]
    with requests.Session() as session:
        files = project_files(session, [f"{web.url}/a", f"{web.url}/b"], "p")
        assert [file.name for file in files] == ["p-1.whl"]
        with pytest.raises(UserError) as error:
            project_files(session, [f"{web.url}/a", "http://127.0.0.1:9"], "p", lambda _: None)
    assert "HTTP 404" in str(error.value) and "connection refused" in str(error.value)
