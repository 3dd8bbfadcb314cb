"""The bill of materials of three wheels, two debs, one patch (case 47)."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.record import sbom
from apertus_image.record.inventory import inventory
from apertus_image.registry.client import Client
from apertus_image.registry.pull import fetch_manifest
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.registry.referrers import attach, referrers
from apertus_image.registry.source import from_image
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from support import images
from support.checkouts import git
from support.distribution import running

TOOLS = Path(__file__).parents[2] / "tools"


def made(release, project=None):
    return sbom.compose(release.image, inventory(release.image, project or release.project))


@pytest.fixture(scope="module")
def listed(release):
    """name -> component."""
    return {each["name"]: each for each in json.loads(made(release))["components"]}


def pinned(release, lock, name):
    data = json.loads((release.project / f"nix/pins/{lock}.json").read_text())
    return next(each for each in data.get("amd64", data.get("x86_64")) if each["name"] == name)


def test_all_are_listed_with_version_purl_and_hash(release, listed):
    assert sorted(listed) == ["a-b", "base-files", "base-passwd", "c", "one", "pkg"]
    assert listed["a-b"]["purl"] == "pkg:pypi/a-b@1.0"
    # The name has an epoch: in a file of the pool its colon would be %3a, in a package URL not.
    assert listed["base-passwd"]["purl"] == (
        "pkg:deb/debian/base-passwd@1:2.0%2Bdeb13u1?arch=amd64&distro=debian-13")
    for lock, name in (("wheels", "c"), ("userland", "base-passwd")):
        pin = pinned(release, lock, name)
        assert listed[name]["version"] == pin["version"]
        assert listed[name]["hashes"] == [{"alg": "SHA-256", "content": pin["sha256"]}]


def test_licences_are_the_packages_own_words(listed):
    assert listed["a-b"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert listed["c"]["licenses"] == [{"license": {"id": "MIT"}}]
    assert [each["license"]["id"] for each in listed["base-files"]["licenses"]] == [
        "GPL-2.0-or-later", "MIT"]


@pytest.mark.parametrize(("name", "reason"), [
    ("pkg", "its METADATA names none"), ("base-passwd", "free text, which points at GPL-2")])
def test_what_has_no_known_licence_says_why(listed, name, reason):
    assert listed[name]["licenses"] == [{"license": {"name": "NOASSERTION"}}]
    said = {each["name"]: each["value"] for each in listed[name]["properties"]}
    assert reason in said["apertus-image:licence"]


def test_a_patch_is_listed_and_in_its_wheels_pedigree(release, listed):
    diff = release.project / "nix/patches/test/one/patch.diff"
    assert listed["one"]["hashes"][0]["content"] == hashlib.sha256(diff.read_bytes()).hexdigest()
    assert listed["one"]["licenses"] == [{"license": {"id": "MIT"}}]
    (patch,) = listed["pkg"]["pedigree"]["patches"]
    assert patch["diff"]["text"]["content"] == diff.read_text() and patch["type"] == "unofficial"
    assert "pedigree" not in listed["c"]


def test_the_bytes_are_equal_twice(release, tmp_path):
    """Made by another process, with another hash seed, from another clone."""
    git(tmp_path, "clone", "-q", release.project, str(tmp_path / "clone"))
    (tmp_path / "image.json").write_text(release.image.json())
    code = ("import sys; from pathlib import Path; from apertus_image.oci.image import Image\n"
            "from apertus_image.record import sbom; from apertus_image.record.inventory import "
            "inventory\nimage = Image.load(Path(sys.argv[1]))\n"
            "sys.stdout.buffer.write(sbom.compose(image, inventory(image, Path(sys.argv[2]))))")
    for seed in ("1", "2"):
        other = subprocess.run(
            [sys.executable, "-c", code, tmp_path / "image.json", tmp_path / "clone"],
            capture_output=True, check=True,
            env={"PYTHONPATH": str(TOOLS), "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo"})
        assert other.stdout == made(release)


def test_another_content_has_another_number(release):
    without = Image.make(release.image.config, release.image.layers[:2], "amd64",
                         release.image.created)
    found = json.loads(sbom.compose(without, inventory(without, release.project)))
    assert len(found["components"]) == 5
    assert found["serialNumber"] != json.loads(made(release))["serialNumber"]


def test_it_is_valid_cyclonedx_without_a_clock(release):
    data = made(release)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode()) is None
    assert "timestamp" not in json.loads(data)["metadata"]
    broken = json.loads(data) | {"serialNumber": "mine"}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(broken)) is not None


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(("file", "old", "new", "said"), [
    ("nix/pins/wheels.json", '"name": "c", "version": "1.0"', '"name": "c", "version": "1.1"',
     "wheels.json, c"),
    ("nix/pins/userland.json", '"name": "base-files"', '"name": "other"', "no such entry"),
    ("nix/patches/test/one/patch.json", '"name": "one"', '"name": "two"', "a patch that is not"),
    ("nix/patches/test/one/patch.json", '"after": "', '"after": "0', "another than this one"),
])
def test_what_is_in_no_lock_is_an_error(release, tmp_path, file, old, new, said):
    shutil.copytree(release.project, tmp_path / "project")
    edit(tmp_path / "project" / file, old, new)
    with pytest.raises(UserError, match=said):
        inventory(release.image, tmp_path / "project")


def test_it_is_attached_by_digest_where_referrers_are_unsupported(release, tmp_path):
    with running(tmp_path / "registry") as registry:
        target, client = Reference(registry.host, "a", "1"), Client(registry.host)
        subject = push(from_image(release.image), target, client).reference
        done = attach(client, subject, sbom.MEDIA_TYPE, made(release))
        assert done.fallback  # docker-registry keeps no list of its own
        (listed,) = referrers(client, subject, sbom.MEDIA_TYPE)
        document = json.loads(fetch_manifest(client, subject.at(listed.digest)).data)
        assert document["subject"]["digest"] == subject.digest
        assert document["layers"][0]["digest"] == (
            f"sha256:{hashlib.sha256(made(release)).hexdigest()}")


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
def test_the_smoke_images_parts_are_all_listed():
    image = Image.load(images.built("smoke-image"))
    parts = inventory(image, images.PROJECT)
    wanted = json.loads((images.PROJECT / "nix/pins/smoke.json").read_text())
    assert [each.name for each in parts.wheels] == sorted(wanted["wheels"])
    assert [each.name for each in parts.debs] == sorted(wanted["debian"])
    assert [each.name for each in parts.patches] == ["visible-after-import"]
    document = sbom.compose(image, parts)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document.decode()) is None
    assert document == sbom.compose(image, inventory(image, images.PROJECT))
