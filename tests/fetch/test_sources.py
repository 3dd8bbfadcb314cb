"""Where this machine gets its inputs, asked of pip, apt and go themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apertus_image.fetch import sources


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Gives pip a configuration of the test's own; nothing else of the machine's is seen."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "APERTUS_")):
            monkeypatch.delenv(name)
    file = tmp_path / "pip.conf"

    def configure(text: str, **variables: str) -> None:
        file.write_text(text)
        monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        sources._pip_settings.cache_clear()

    yield configure
    sources._pip_settings.cache_clear()


def test_indexes_are_pips_own_in_its_order(pip):
    pip("[global]\nindex-url = https://one/simple/\n"
        "extra-index-url =\n  https://two/simple\n  https://three/simple\n"
        "find-links = /a/folder https://links/page.html\n")
    assert sources.wheel_indexes() == [
        "https://one/simple", "https://two/simple", "https://three/simple"]
    assert sources.find_links() == ["/a/folder", "https://links/page.html"]


def test_the_section_of_install_and_the_environment_come_first(pip):
    text = "[global]\nindex-url = https://one/\n[install]\nindex-url = https://install/\n"
    pip(text)
    assert sources.wheel_indexes() == ["https://install"]
    pip(text, PIP_INDEX_URL="https://environment/")
    assert sources.wheel_indexes() == ["https://environment"]


def test_no_index_leaves_the_folders(pip):
    pip("[global]\nno-index = true\nfind-links = /a/folder\n")
    assert sources.wheel_indexes() == [] and sources.find_links() == ["/a/folder"]


def test_without_configuration_pips_default_is_taken_from_pip(pip):
    pip("")
    (url,) = sources.wheel_indexes()
    assert url.startswith("https://") and url.endswith("/simple")


def test_the_variable_replaces_all_of_pips(pip):
    pip("[global]\nindex-url = https://one/\nfind-links = /a/folder\n",
        APERTUS_PYPI_INDEX="https://mine/simple/ /wheels")
    assert sources.wheel_indexes() == ["https://mine/simple", "/wheels"]
    assert sources.find_links() == []


def test_mirrors_come_from_apts_own_files(tmp_path, monkeypatch):
    monkeypatch.delenv("APERTUS_DEBIAN_MIRRORS", raising=False)
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "mirrors.list").write_text(
        "# ours first\nhttps://near/debian/\tpriority:1\n\nhttps://far/debian\n")
    (tmp_path / "sources.list").write_text(
        "# deb http://no/\ndeb-src http://source/ x main\ndeb [a=b] http://one/debian x main\n"
        "deb cdrom:[Debian]/ x main\n")
    (tmp_path / "sources.list.d/a.sources").write_text(
        "Types: deb deb-src\n# URIs: http://comment/\nURIs: http://two/debian/\n"
        " http://three/debian\nSuites: x\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://off/\n \n"
        "Types: deb-src\nURIs: http://source/\n\n"
        f"types: deb\nuris: mirror+file:{tmp_path}/mirrors.list file:/srv/debian\n")
    (tmp_path / "sources.list.d/b.list").write_text("deb http://one/debian y main\n")
    (tmp_path / "sources.list.d/c.disabled").write_text("deb http://four/debian y main\n")
    assert sources.debian_mirrors(tmp_path) == [
        "http://one/debian", "http://two/debian", "http://three/debian",
        "https://near/debian", "https://far/debian", "file:/srv/debian"]
    monkeypatch.setenv("APERTUS_DEBIAN_MIRRORS", "http://mine/ /folder")
    assert sources.debian_mirrors(tmp_path) == ["http://mine", "/folder"]


@pytest.mark.parametrize(("place", "folder"), [
    ("/a/b", "/a/b"), ("file:///a/b", "/a/b"), ("file:/a/b", "/a/b"),
    ("https://host/a", None), ("http://host", None)])
def test_folders_in_every_spelling(place, folder):
    assert sources.folder_of(place) == (Path(folder) if folder else None)


def program(tmp_path, monkeypatch, name, output):
    file = tmp_path / "bin" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")


def test_apts_proxies_are_asked_of_apt(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "apt-config",
            'APT "";\nAcquire::http::Proxy "http://proxy:3142/";\n'
            'Acquire::http::Proxy::near.site "DIRECT";\nAcquire::https::Timeout "9";')
    assert sources.apt_proxies() == {"http": "http://proxy:3142/", "http://near.site": ""}


def test_gos_proxy_is_asked_of_go(tmp_path, monkeypatch):
    monkeypatch.delenv("APERTUS_GOPROXY", raising=False)
    program(tmp_path, monkeypatch, "go", "https://modules/,direct")
    assert sources.go_proxy() == "https://modules/,direct"
    monkeypatch.setenv("APERTUS_GOPROXY", "https://mine/")
    assert sources.go_proxy() == "https://mine/"


def test_certificates_of_the_variable_then_of_pip(pip, tmp_path, monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("mine.pem", "pips.pem"):
        (tmp_path / name).write_text("")
    pip(f"[global]\ncert = {tmp_path}/pips.pem\n")
    assert sources.ca_bundle() == f"{tmp_path}/pips.pem"
    monkeypatch.setenv("APERTUS_CA_BUNDLE", f"{tmp_path}/mine.pem")
    assert sources.ca_bundle() == f"{tmp_path}/mine.pem"
