"""Fetching inside a build: mirrors from APERTUS_* variables alone (trap 7)."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import shutil
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from support.world import build, built

NO_SUCH_HASH = "0" * 63 + "1"

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix-build"), reason="not run: Nix is not here"),
]


def arguments(name: str, content: bytes) -> list[str]:
    digest = hashlib.sha256(content).hexdigest()
    size = str(len(content))
    return ["--argstr", "name", name, "--argstr", "sha256", digest, "--arg", "size", size]


@pytest.fixture
def mirror(tmp_path):
    """An HTTP server over a folder: (folder, URL, paths asked for)."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

    (tmp_path / "pool/main/x").mkdir(parents=True)
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


@pytest.mark.parametrize("attribute", ["deb", "wheel", "unknownBootstrap"])
def test_without_mirrors_the_build_names_the_command(attribute):
    built("world.toolchain")
    result = build(attribute, "--argstr", "name", "gone_1~2.deb", "--argstr", "sha256",
                   NO_SUCH_HASH, "--arg", "size", "1")
    assert result.returncode != 0
    assert "tools/prefetch" in result.stderr
    assert "Traceback" not in result.stderr


def test_deb_comes_from_the_first_mirror_that_has_it(mirror):
    folder, url, asked = mirror
    name, content = "some+more_1~rc1_amd64.deb", os.urandom(2000)
    (folder / "pool/main/x" / name).write_bytes(content)
    built("world.bootstrap")
    result = build("deb", *arguments(name, content),
                   APERTUS_DEBIAN_MIRRORS=f"http://127.0.0.1:9/debian {url}")
    assert result.returncode == 0, result.stderr
    assert asked == [f"/pool/main/x/{name.replace('+', '%2b')}"]
    path = Path(result.stdout.strip())
    assert path.name.endswith("-some+more_1_rc1_amd64.deb")
    assert path.read_bytes() == content


def test_deb_that_mirrors_dropped_comes_from_the_snapshot_of_the_day_after_the_lock(mirror):
    folder, url, asked = mirror
    name, content = "old_1_amd64.deb", os.urandom(2000)
    snapshot = folder / "archive/20261122T091544Z/pool/main/x"
    snapshot.mkdir(parents=True)
    (snapshot / name).write_bytes(content)
    built("world.bootstrap")
    result = build("deb", *arguments(name, content), APERTUS_DEBIAN_MIRRORS=url,
                   APERTUS_DEBIAN_SNAPSHOT=f"{url}/archive")
    assert result.returncode == 0, result.stderr
    assert asked == [f"/pool/main/x/{name}", f"/archive/20261122T091544Z/pool/main/x/{name}"]


def test_deb_with_other_content_is_refused_and_every_mirror_told(mirror):  # case: wrong hash
    folder, url, _ = mirror
    name, content = "wrong_1_amd64.deb", os.urandom(2000)
    (folder / "pool/main/x" / name).write_bytes(content[::-1])
    built("world.bootstrap")
    secret = url.replace("://", "://me:secret@")
    result = build("deb", *arguments(name, content),
                   APERTUS_DEBIAN_MIRRORS=f"{secret} {url}/elsewhere")
    assert result.returncode != 0
    assert hashlib.sha256(content[::-1]).hexdigest() in result.stderr
    assert "404" in result.stderr
    assert "secret" not in result.stderr
    assert "tools/prefetch" in result.stderr


def test_wheel_comes_from_the_index(mirror):
    folder, url, asked = mirror
    name, content = "x-1.0+cu130~1-py3-none-any.whl", os.urandom(2000)
    (folder / "simple/x").mkdir(parents=True)
    (folder / "simple/x/index.html").write_text(f'<a href="/files/{quote(name)}">{name}</a>')
    (folder / "files").mkdir()
    (folder / "files" / name).write_bytes(content)
    built("world.toolchain")
    result = build("wheel", *arguments(name, content), APERTUS_PYPI_INDEX=f"{url}/simple/")
    assert result.returncode == 0, result.stderr
    assert asked == ["/simple/x/", f"/files/{quote(name)}"]
    assert Path(result.stdout.strip()).name.endswith("-x-1.0+cu130_1-py3-none-any.whl")
    assert Path(result.stdout.strip()).read_bytes() == content


def test_wheel_with_other_content_is_refused(mirror):  # case: wrong hash
    folder, url, _ = mirror
    name, content = "x-2.0-py3-none-any.whl", os.urandom(2000)
    (folder / name).write_bytes(content[::-1])
    (folder / "simple/x").mkdir(parents=True)
    (folder / "simple/x/index.html").write_text(f'<a href="/{name}">{name}</a>')
    built("world.toolchain")
    result = build("wheel", *arguments(name, content), APERTUS_PYPI_INDEX=f"{url}/simple")
    assert result.returncode != 0
    assert hashlib.sha256(content[::-1]).hexdigest() in result.stderr
    assert "tools/prefetch" in result.stderr
    assert "Traceback" not in result.stderr
