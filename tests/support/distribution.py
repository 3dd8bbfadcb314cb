"""The real docker-registry on loopback, and skopeo, the referee of what it holds."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {data}}}
  delete: {{enabled: true}}
http:
  addr: 127.0.0.1:{port}
  secret: of-the-tests
  relativeurls: {relative}
"""


class Distribution:
    """One registry: its address, its data, and what it can be made to do."""

    def __init__(self, folder: Path, *, relative: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.host, self.data, self._config = f"127.0.0.1:{port}", folder / "data", folder / "config"
        self._config.write_text(CONFIG.format(data=self.data, port=port,
                                              relative=str(relative).lower()))
        self._log = folder / "log"
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(["docker-registry", "serve", self._config],
                                             stdout=log, stderr=log)
        for _ in range(200):
            with contextlib.suppress(OSError):
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                    f"http://{self.host}/v2/")
                return
            time.sleep(0.05)
        raise AssertionError(self._log.read_text())

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()

    def blob(self, digest: str) -> Path:
        """Where its file of a blob lies."""
        name = digest.removeprefix("sha256:")
        return self.data / "docker/registry/v2/blobs/sha256" / name[:2] / name / "data"


@contextlib.contextmanager
def running(folder: Path, **options: bool) -> Iterator[Distribution]:
    """A registry for the length of the block; skips where there is none."""
    if not shutil.which("docker-registry"):
        pytest.skip("not run: docker-registry is not here")
    registry = Distribution(folder, **options)
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()


def skopeo(*arguments: str | Path) -> str:
    """Run skopeo; skips where there is none."""
    if not shutil.which("skopeo"):
        pytest.skip("not run: skopeo is not here")
    ran = subprocess.run(["skopeo", "--insecure-policy", *map(str, arguments)],
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def inspect(reference: object) -> dict:
    """What skopeo says of an image."""
    return json.loads(skopeo("inspect", "--tls-verify=false", f"docker://{reference}"))
