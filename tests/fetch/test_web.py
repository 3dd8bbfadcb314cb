"""What is asked again, and what is told of hosts that do not answer."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from email.utils import formatdate

import pytest
import requests
from apertus_image.fetch import web
from apertus_image.fetch.web import Down, Failed, insist, new_session, redacted
from support import server


def get(session, url, **options):
    def ask():
        reply = session.get(url, timeout=5)
        reply.raise_for_status()
        return reply.content

    return insist(ask, url, **options)


def test_a_host_that_is_down_is_left_alone_for_a_while():
    now = [0.0]
    down = Down(60, lambda: now[0])
    waited = []
    url = "http://127.0.0.1:9/a"
    with requests.Session() as session:
        with pytest.raises(Failed, match="connection refused, after 4 attempts"):
            get(session, url, wait=waited.append, down=down)
        assert len(waited) == 3
        with pytest.raises(Failed, match="connection refused"):
            get(session, "http://127.0.0.1:9/b", wait=waited.append, down=down)
        assert len(waited) == 3
    assert down.why("http://127.0.0.1:10/a") is None
    now[0] = 61.0
    assert down.why(url) is None


def test_a_host_that_answers_badly_is_not_down():
    down = Down()
    with server.serve() as script, requests.Session() as session:
        script.replies["/x"] = [server.status(503)]
        with pytest.raises(Failed, match="HTTP 503, after 4 attempts") as error:
            get(session, f"{script.url}/x", wait=lambda _: None, down=down)
        assert not error.value.gone
        assert down.why(script.url) is None


def test_a_date_in_retry_after():
    waited = []
    with server.serve() as script, requests.Session() as session:
        soon = formatdate(time.time() + 20, usegmt=True)
        script.replies["/x"] = [server.status(429, Retry_After=soon), server.body(b"x")]
        assert get(session, f"{script.url}/x", wait=waited.append) == b"x"
    assert 10 < waited[0] <= 21


@pytest.mark.parametrize(("error", "why"), [
    (requests.exceptions.ConnectTimeout(), "no answer"),
    (requests.ConnectionError("NameResolutionError: x"), "no such host"),
    (requests.exceptions.ProxyError("Connection refused"), "the proxy cannot be reached"),
    (requests.exceptions.ReadTimeout(), "nothing came for 60 s"),
    (requests.exceptions.ChunkedEncodingError("IncompleteRead"), "connection lost"),
    (requests.ConnectionError("cut after 1 of 2 bytes"), "cut after 1 of 2 bytes"),
])
def test_failures_are_told_in_words(error, why):
    def ask():
        raise error

    with pytest.raises(Failed, match=f"^{why}, after {web.ATTEMPTS} attempts$"):
        insist(ask, "http://host/x", wait=lambda _: None)


def test_a_proxy_that_refuses_is_not_asked_again():
    def ask():
        raise requests.exceptions.ProxyError("x('Tunnel connection failed: 403 Forbidden')")

    with pytest.raises(Failed, match="^the proxy refuses: 403 Forbidden$"):
        insist(ask, "http://host/x", wait=pytest.fail)


@pytest.mark.skipif(not shutil.which("openssl"), reason="not run: openssl is not here")
def test_a_certificate_that_is_not_trusted(tmp_path):
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
         certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with server.serve(context) as script:
        script.replies["/x"] = [server.body(b"x")]
        with requests.Session() as session:
            session.trust_env = False
            with pytest.raises(Failed, match="not trusted.*APERTUS_CA_BUNDLE"):
                get(session, f"{script.url}/x", wait=pytest.fail)
        with new_session(str(certificate)) as session:
            session.trust_env = False
            assert get(session, f"{script.url}/x") == b"x"


@pytest.mark.parametrize(("place", "told"), [
    ("https://me:secret@host:8443/x", "https://host:8443/x"),
    ("https://host/x?signature=secret", "https://host/x?\u2026"),
    ("http://[::1]:80/x", "http://[::1]:80/x"),
    ("/a/folder", "/a/folder"),
])
def test_passwords_are_not_told(place, told):
    assert redacted(place) == told
