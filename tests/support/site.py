"""A site's registry under test, and small images pushed to it and read back by skopeo."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import images

needs_programs = pytest.mark.skipif(
    not (shutil.which("docker-registry") and shutil.which("skopeo")),
    reason="not run: docker-registry or skopeo is not here")


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tools/registry to its end."""
    return subprocess.run(_command(arguments), capture_output=True, text=True, timeout=120,
                          env=_environment(environment))


@contextlib.contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[Server]:
    """A server in the foreground; stopped at the end, unless the test did so."""
    process = subprocess.Popen(_command(["serve", folder, *options]), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=_environment(environment))
    try:
        yield Server(process, process.stdout.readline().strip())
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


class Server:
    """A running `tools/registry serve`.

    Attributes:
        process: the command.
        address: what it printed.
    """

    def __init__(self, process: subprocess.Popen, address: str) -> None:
        self.process, self.address = process, address

    @property
    def url(self) -> str:
        return f"http://{self.address}/v2/"

    @property
    def registry(self) -> int:
        """The process number of its docker-registry."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal; the exit code, and what it said on stderr."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        assert out == ""
        return self.process.returncode, err


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def image(folder: Path, seed: int, *, shared: bytes = b"") -> Path:
    """An OCI layout with an image of four layers of random bytes, one of them `shared`."""
    source, blobs = random.Random(seed), folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes, kind: str) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "size": len(data),
                "digest": f"sha256:{digest}"}

    layers = [put(_tar(content), "layer.v1.tar")
              for content in [shared, *(source.randbytes(20_000) for _ in range(3))]]
    config = {"architecture": "amd64", "os": "linux", "config": {},
              "rootfs": {"type": "layers", "diff_ids": [each["digest"] for each in layers]}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": put(json.dumps(config).encode(), "config.v1+json"), "layers": layers}
    described = put(json.dumps(manifest).encode(), "manifest.v1+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
        {**described, "annotations": {"org.opencontainers.image.ref.name": "t"}}]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def manifest_of(layout: Path) -> str:
    """The digest of a layout's one manifest."""
    return json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]


def blobs_of(layout: Path) -> dict[str, bytes]:
    """digest -> bytes of all that a layout holds, its manifest included."""
    return {f"sha256:{file.name}": file.read_bytes()
            for file in (layout / "blobs/sha256").iterdir()}


def push(layout: Path, server: Server, name: str) -> None:
    _skopeo(f"oci:{layout}:t", f"docker://{server.address}/{name}")


def pull(server: Server, name: str, folder: Path) -> Path:
    """Copy an image from the registry into an OCI layout."""
    _skopeo(f"docker://{server.address}/{name}", f"oci:{folder}:t")
    return folder


def _skopeo(source: str, target: str) -> None:
    subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", "--preserve-digests",
                    "--src-tls-verify=false", "--dest-tls-verify=false", source, target],
                   check=True, capture_output=True, text=True)


def _tar(content: bytes) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo("file")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def _command(arguments: object) -> list[str]:
    return [sys.executable, "-m", "apertus_image.commands.registry", *map(str, arguments)]


def _environment(more: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(images.PROJECT / "tools"), **more}
