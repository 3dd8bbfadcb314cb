"""The registry of a release: whose certificate is trusted."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from types import SimpleNamespace

import pytest
from apertus_image.errors import UserError
from apertus_image.registry.auth import scope_of
from apertus_image.release.context import Context
from fakes import registry as fake

VARIABLES = ("APERTUS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "PIP_CERT")


@pytest.mark.skipif(not shutil.which("openssl"), reason="not run: openssl is not here")
def test_the_profiles_certificate_is_trusted_else_the_environments(tmp_path, monkeypatch):
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
         certificate], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def ping(**settings):
        profile = SimpleNamespace(registry={
            "host": registry.host, "repository": "t/i", "plain_http": False, **settings})
        context = Context(tmp_path, profile, *[None] * 7, said.append)
        with context.registry() as (client, _):
            return client.ping(scope_of("t/i"))

    said = []
    with fake.serve(tls) as registry:
        with pytest.raises(UserError, match="not trusted"):
            ping()
        assert ping(ca=certificate) == "none"
        monkeypatch.setenv("APERTUS_CA_BUNDLE", str(certificate))
        assert ping() == "none"
