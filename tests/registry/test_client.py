"""Requests: logins, redirects, waits, errors, and what is never sent or shown."""

from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest
from apertus_image.errors import UserError
from apertus_image.registry.auth import challenges, scope_of
from apertus_image.registry.client import ATTEMPTS, Client
from apertus_image.registry.credentials import Credentials
from fakes import registry as fake
from support.pushing import MIB, REPOSITORY, blob_of

SCOPE = scope_of(REPOSITORY)


def authorizations(registry):
    return [each.headers.get("Authorization") for each in registry.asked]


def test_challenges_are_taken_apart():
    found = challenges('Bearer realm="https://a/t?x=1,2",service="s \\"q\\"",'
                       'scope="repository:a:pull,push repository:b:pull", Basic realm=plain')
    assert [each.scheme for each in found] == ["bearer", "basic"]
    assert found[0].parameters == {"realm": "https://a/t?x=1,2", "service": 's "q"',
                                   "scope": "repository:a:pull,push repository:b:pull"}
    assert found[1].parameters == {"realm": "plain"}


def test_no_login_is_needed_where_none_is_asked_for(bench):
    assert bench.client().ping(SCOPE) == "none"
    assert authorizations(bench.registry) == [None]


def test_basic(bench):
    bench.login(fake.Login("basic"))
    assert bench.client().ping(SCOPE) == "basic"
    assert len(bench.registry.asked) == 2


def test_a_token_is_fetched_once_for_what_will_be_done(bench):
    bench.login(fake.Login())
    client = bench.client()
    assert client.ping(SCOPE) == "bearer"
    client.send("HEAD", client.url(REPOSITORY, "blobs", "sha256:" + "0" * 64), SCOPE,
                expect=(404,))
    assert bench.registry.login.scopes == [["repository:team/image:pull,push"]]


def test_an_anonymous_token(bench):
    bench.registry.login = fake.Login(anonymous=True)
    assert bench.client().ping(SCOPE) == "bearer"


def test_a_token_of_the_environment_is_sent_as_it_is(bench):
    bench.registry.login = fake.Login(tokens={"mine": 9})
    bench.environment["APERTUS_REGISTRY_TOKEN"] = "mine"
    bench.client().ping(SCOPE)
    bench.registry.login.tokens.clear()
    with pytest.raises(UserError, match="refuses the credentials") as error:
        bench.client().ping(SCOPE)
    assert "mine" not in str(error.value) and not bench.registry.login.scopes


def test_an_identity_token_is_changed_for_one_of_the_registrys(bench, tmp_path):
    bench.registry.login = fake.Login()
    (tmp_path / "config.json").write_text(
        f'{{"auths": {{"{bench.registry.host}": {{"identitytoken": "s3cret-password"}}}}}}')
    bench.environment["DOCKER_CONFIG"] = str(tmp_path)
    bench.client().ping(SCOPE)
    assert [each.method for each in bench.registry.asked] == ["GET", "POST", "GET"]


def test_tokens_that_end_are_renewed_in_the_same_session(bench):  # case 20
    bench.login(fake.Login(uses=2, open=("HEAD",)))
    blob = blob_of(8 * MIB)
    done = bench.upload(blob)
    assert blob.digest in bench.registry.blobs
    assert len([each for each in bench.registry.sent("POST") if "uploads" in each.url]) == 2
    assert len(bench.registry.login.tokens) == 5 and done.again == 0
    assert "repository:team/image:pull,push" in bench.registry.login.scopes[0]


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_wrong_credentials_fail_at_once_by_the_registrys_name(bench, kind):  # case 20
    bench.login(fake.Login(kind, password="right"))
    bench.environment["APERTUS_REGISTRY_PASSWORD"] = "wrong-hush"
    with pytest.raises(UserError, match="refuses the credentials") as error:
        bench.client().ping(SCOPE)
    told = str(error.value)
    assert bench.registry.host in told and "anna" in told and "hush" not in told
    assert len(bench.registry.asked) == 2 and not bench.waits


def test_a_login_that_is_missing_is_asked_for(bench):
    bench.registry.login = fake.Login("basic")
    with pytest.raises(UserError, match="asks for a login") as error:
        bench.client().ping(SCOPE)
    assert "APERTUS_REGISTRY_USER" in error.value.next_step


def test_a_login_that_may_only_read_fails_at_once(bench):
    bench.login(fake.Login(denied=("POST",)))
    with pytest.raises(UserError, match="does not allow this") as error:
        bench.upload(blob_of(10))
    assert error.value.expected == "repository:team/image:pull,push"
    assert len(bench.registry.login.tokens) == 1


def test_a_token_server_without_tls_elsewhere_gets_nothing(bench):
    bench.login(fake.Login(realm="http://token.example/token"))
    with pytest.raises(UserError, match="without TLS"):
        bench.client().ping(SCOPE)


def test_netrc_does_not_override_a_token(bench, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password netrc-hush\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    bench.login(fake.Login())
    bench.client().ping(SCOPE)
    assert authorizations(bench.registry)[0] is None
    assert authorizations(bench.registry)[-1].startswith("Bearer ")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_keeps_the_method(bench, status):
    bench.registry.fault("POST", "uploads/", fake.answer(
        status, Location="/v2/team/image/blobs/uploads/?again"))
    blob = blob_of(MIB)
    bench.upload(blob)
    assert [each.method for each in bench.registry.asked] == ["POST", "POST", "PUT"]
    assert blob.digest in bench.registry.blobs


def test_a_redirect_to_another_host_takes_no_credentials_along(bench):
    bench.login(fake.Login("basic"))
    blob = blob_of(10)
    with fake.serve() as store:
        store.blobs[blob.digest] = b"\0" * 10
        bench.registry.fault("GET", "blobs", lambda h, _: False if not h.headers.get(
            "Authorization") else fake.answer(307, Location=f"{store.url}{h.path}")(h, b""), 9)
        client = bench.client()
        reply = client.send("GET", client.url(REPOSITORY, "blobs", blob.digest), SCOPE)
        assert reply.body == b"\0" * 10
        assert authorizations(store) == [None]


def test_redirects_end(bench):
    bench.registry.fault("GET", "", fake.answer(302, Location="/v2/"), 99)
    with pytest.raises(UserError, match="HTTP 302"):
        bench.client().ping(SCOPE)


@pytest.mark.parametrize("target", ["ftp://x/", "http://reg.example/", "http://[bad/"])
def test_a_redirect_that_is_not_followed(bench, target):
    bench.registry.fault("GET", "", fake.answer(302, Location=target))
    with pytest.raises(UserError):
        bench.client().ping(SCOPE)


def test_a_long_wait_is_refused_and_the_bound_told(bench):  # case 25
    bench.registry.fault("GET", "", fake.answer(429, Retry_After="3600"), 9)
    with pytest.raises(UserError, match="HTTP 429") as error:
        bench.client().ping(SCOPE)
    assert "3600 s" in str(error.value) and "300 s" in str(error.value) and not bench.waits


def test_waits_grow_and_end(bench):  # case 25
    bench.registry.fault("GET", "", fake.answer(503), float("inf"))
    with pytest.raises(UserError, match=f"after {ATTEMPTS} attempts"):
        bench.client().ping(SCOPE)
    assert len(bench.waits) == ATTEMPTS - 1
    assert all(2 ** n <= wait <= 2 ** n * 1.25 for n, wait in enumerate(bench.waits))


ERRORS = {
    "the spec's": ("application/json", fake.error("DENIED"), "DENIED as scripted"),
    "HTML": ("text/html", "<html>\n<head><title>Go away</title></head><body>x</body></html>",
             "Go away"),
    "HTML without a title": ("text/html", "<h1>Go away</h1>\nnow", "Go away"),
    "text": ("text/plain", "\nGo away\nnow\n", "Go away"),
    "other JSON": ("application/json", '{"errors": ["x"]}', '{"errors": ["x"]}'),
    "nothing": ("text/plain", "", "HTTP 403"),
    "control characters": ("text/plain", "Go\x1b[2J away", "Go [2J away"),
}


@pytest.mark.parametrize(("kind", "text", "told"), ERRORS.values(), ids=ERRORS)
def test_errors_of_any_form_are_told_in_a_line(bench, kind, text, told):  # case 18
    bench.registry.fault("GET", "", fake.answer(403, text, kind))
    with pytest.raises(UserError) as error:
        bench.client().ping(SCOPE)
    assert told in error.value.got and "\n" not in error.value.got
    assert f"GET {bench.registry.url}/v2/" in error.value.where


def test_an_endless_error_is_cut(bench):
    bench.registry.fault("GET", "", fake.answer(403, "x" * (4 * MIB), "text/plain"))
    with pytest.raises(UserError) as error:
        bench.client().ping(SCOPE)
    assert len(error.value.got) < 400


def test_an_answer_that_is_too_long_is_refused(bench):
    bench.registry.fault("GET", "", fake.answer(200, "x" * (9 * MIB)))
    with pytest.raises(UserError, match="too long"):
        bench.client().ping(SCOPE)


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_an_error_that_repeats_a_secret_is_masked(bench, kind):
    bench.login(fake.Login(kind))
    bench.registry.fault("GET", "manifests", lambda h, _: fake.answer(
        403, "you sent " + h.headers["Authorization"], "text/plain")(h, b""))
    client = bench.client()
    client.ping(SCOPE)
    with pytest.raises(UserError) as error:
        client.send("GET", client.url(REPOSITORY, "manifests", "x"), SCOPE)
    assert f"you sent {kind.title()} …" in str(error.value)


def test_a_url_is_shown_without_the_values_of_its_query(bench):
    bench.registry.fault("PATCH", "", fake.answer(403))
    with pytest.raises(UserError) as error:
        bench.upload(blob_of(2 * MIB))
    assert "_state" not in str(error.value) and "/blobs/uploads/1?…" in str(error.value)


def test_a_warning_is_shown_once(bench):
    bench.registry.headers["Warning"] = '299 - "old \\"API\\"", 299 - "two"'
    client = bench.client()
    client.ping(SCOPE)
    client.ping(SCOPE)
    assert bench.said == [f'{bench.registry.host} warns: old "API"',
                          f"{bench.registry.host} warns: two"]


def test_no_cookie_is_kept(bench):
    bench.registry.headers["Set-Cookie"] = "sid=1"
    client = bench.client()
    client.ping(SCOPE)
    client.ping(SCOPE)
    assert not any("Cookie" in each.headers for each in bench.registry.asked)


def test_plain_http_is_for_loopback_or_on_request():
    assert Client("127.0.0.1:5000").base == "http://127.0.0.1:5000/v2/"
    assert Client("[::1]:5000").base.startswith("http://")
    assert Client("127.0.0.1:5000", plain_http=False).base.startswith("https://")
    assert Client("reg.example").base == "https://reg.example/v2/"
    assert Client("reg.example", plain_http=True).base == "http://reg.example/v2/"


@pytest.mark.skipif(not shutil.which("openssl"), reason="not run: openssl is not here")
def test_tls_with_a_certificate_of_the_sites_own(tmp_path):
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
         certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with fake.serve(context) as registry:
        own = Client(registry.host, plain_http=False, verify=str(certificate))
        assert own.ping(SCOPE) == "none"
        other = Client(registry.host, plain_http=False, wait=pytest.fail)
        with pytest.raises(UserError, match="not trusted"):
            other.ping(SCOPE)


def test_loopback_is_reached_without_the_proxy(bench, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    monkeypatch.delenv("no_proxy", raising=False)
    assert bench.client().ping(SCOPE) == "none"
    other = Client("reg.example", plain_http=True, wait=lambda _: None,
                   credentials=Credentials("", {"HOME": "/nowhere"}))
    with pytest.raises(UserError, match="proxy"):
        other.ping(SCOPE)


def test_what_is_no_registry_is_told(bench):
    bench.registry.fault("GET", "", fake.answer(404, "<title>Welcome</title>", "text/html"))
    with pytest.raises(UserError, match="not a registry"):
        bench.client().ping(SCOPE)
