"""Go modules: vendored by the go that is given, and taken only with the locked hash."""

from __future__ import annotations

import base64
import json
import shutil

import pytest
from apertus_image.errors import UserError
from apertus_image.fetch.bootstrap import nar_sha256
from apertus_image.fetch.govendor import expected_path, vendor
from apertus_image.store.store import Store

NAME = "tool-1.0-go-modules"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """(pins, source, go): a go that vendors one file, and says what it was told."""
    monkeypatch.setenv("APERTUS_GOPROXY", "https://modules.example/")
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    source, pins = tmp_path / "source", tmp_path / "pins"
    (source / "sub").mkdir(parents=True)
    (source / "go.mod").write_text("module tool\n")
    (source / "sub/file").write_text("x")
    for path in (source / "sub", source):
        path.chmod(0o555)
    go = tmp_path / "go"
    go.write_text(
        "#!/bin/sh\nset -e\n[ \"$1 $2\" = 'mod vendor' ]; cat go.mod >/dev/null\n"
        f"env | grep ^GO | grep -v ^GOPATH | sort >{tmp_path}/told\n"
        "mkdir vendor; echo '# x' >vendor/modules.txt; : >sub/new\n")
    go.chmod(0o755)
    vendored = tmp_path / "like"
    vendored.mkdir()
    (vendored / "modules.txt").write_text("# x\n")
    pins.mkdir()

    def pin(digest: str) -> None:
        text = "sha256-" + base64.b64encode(bytes.fromhex(digest)).decode()
        (pins / "go.json").write_text(json.dumps(
            {"format": 1, "kind": "go", "nix2container": {"name": NAME, "vendorHash": text}}))

    pin(nar_sha256(vendored))
    yield pins, source, go, pin
    for path in (source, source / "sub"):
        path.chmod(0o755)


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix-store"), reason="not run: Nix is not here")
def test_modules_go_where_nix2containers_build_expects_them(site, tmp_path):
    pins, source, go, _ = site
    store = Store(tmp_path / "root")
    path = vendor(pins, source, go, store)
    assert path == expected_path(pins) and path.endswith(f"-{NAME}")
    assert (store.physical(path) / "modules.txt").read_text() == "# x\n"
    # The source is the store's: it is not written to. The user's own flags do not count.
    assert sorted(item.name for item in source.rglob("*")) == ["file", "go.mod", "sub"]
    assert (tmp_path / "told").read_text().splitlines() == [
        "GOFLAGS=-modcacherw", "GOPROXY=https://modules.example/", "GOTOOLCHAIN=local"]


def test_other_modules_than_the_locked_ones_are_refused(site, tmp_path):
    pins, source, go, pin = site
    pin("00" * 32)
    with pytest.raises(UserError, match="not the locked ones"):
        vendor(pins, source, go, Store(tmp_path / "root"))
    assert not (tmp_path / "root").exists()


def test_a_go_that_fails_is_quoted(site, tmp_path):
    pins, source, go, _ = site
    go.write_text("#!/bin/sh\necho 'dial tcp: lookup failed' >&2\nexit 1\n")
    with pytest.raises(UserError, match="lookup failed") as error:
        vendor(pins, source, go, Store(tmp_path / "root"))
    assert "APERTUS_GOPROXY" in str(error.value) and "--maker emitter" in str(error.value)
