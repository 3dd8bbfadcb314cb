"""One release for all tests of the room, which no test changes, and copies that each may."""

from __future__ import annotations

import pytest
from apertus_image.record import stamp
from apertus_image.record.stamp import Stamps
from apertus_image.record.verify import Verifier
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
from support import images, published, releases


@pytest.fixture(scope="session")
def release(tmp_path_factory) -> releases.Release:
    return releases.release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="session")
def exported(release, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    return Exporter(images.built("toolchain") / "bin").export(StoredImage(release.image), folder)


@pytest.fixture
def there(release, exported, tmp_path, monkeypatch):
    """A release of the test's own, and a verifier with a cache of its own."""
    monkeypatch.setattr(stamp, "TICK", 0.05)  # seconds, as local file systems keep times
    return published.publish(release, exported, tmp_path / "store")


@pytest.fixture
def verify(there, release, tmp_path):
    def run(mode="quick", artefact=None, **more):
        settings = {"image": release.image, "project": release.project, "signers": there.signers,
                    "stamps": Stamps(tmp_path / "stamps")}
        return Verifier(mode, **(settings | more)).verify(str(artefact or there.files.sqsh))
    return run
