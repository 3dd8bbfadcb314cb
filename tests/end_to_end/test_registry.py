"""An image of this project through a registry: pushed from the store, pulled, exported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from apertus_image.oci.image import Image
from apertus_image.oci.layout import Layout
from apertus_image.registry.client import Client
from apertus_image.registry.pull import pull
from apertus_image.registry.reference import Reference
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import LayoutImage, StoredImage
from support import images
from support.distribution import inspect, running

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]


def test_the_smoke_image_goes_through_a_registry_to_the_same_export(tmp_path):
    file = images.built("smoke-image")
    image, programs = Image.load(file), images.built("toolchain") / "bin"
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    with running(tmp_path / "registry") as registry:

        def push() -> dict:
            done = subprocess.run(
                [images.PROJECT / "tools/push-image", file, "--json",
                 f"docker://{registry.host}/team/smoke:1"], capture_output=True, text=True,
                env=environment)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        first, second = push(), push()
        assert first["bytes_sent"] > 0 == second["bytes_sent"]
        assert first["digest"] == second["digest"] and first["image"] == image.image_id
        told = inspect(first["reference"])
        assert told["Layers"] == [each.digest for each in image.layers]
        assert told["Labels"] == image.config["Labels"]
        reference = Reference.parse(first["reference"])
        pull(reference, Client(registry.host), tmp_path / "layout")

        def export(name: str) -> subprocess.CompletedProcess:
            return subprocess.run([images.PROJECT / "tools/export-sqsh", f"docker://{name}", "-o",
                                   tmp_path, "--json"], capture_output=True, text=True)

        by_digest, by_tag = export(first["reference"]), export(f"{registry.host}/team/smoke:1")
    assert by_digest.returncode == 0, by_digest.stderr
    assert by_tag.returncode != 0 and "is exported by its digest" in by_tag.stderr
    assert not list(tmp_path.glob(".*"))  # what was pulled is gone
    straight = Exporter(programs).export(StoredImage(image), tmp_path / "straight.sqsh")
    pulled = Exporter(programs).export(LayoutImage(Layout(tmp_path / "layout")),
                                       tmp_path / "pulled.sqsh")
    assert straight.record["sha256"] == pulled.record["sha256"]
    assert straight.record["sha256"] == json.loads(by_digest.stdout)["sha256"]
