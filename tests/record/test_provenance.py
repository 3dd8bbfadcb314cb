"""Provenance: an in-toto statement over manifests and SquashFS, the same bytes twice."""

from __future__ import annotations

import json

import pytest
from apertus_image.errors import UserError
from apertus_image.record import provenance
from apertus_image.record.inventory import inventory
from support.checkouts import git
from support.releases import REVISION


def made(release, project=None):
    folder = project or release.project
    return provenance.compose(release.record(folder), (folder / "flake.lock").read_bytes(),
                              inventory(release.image, folder))


@pytest.fixture(scope="module")
def statement(release):
    return json.loads(made(release))


def test_it_is_about_the_manifests_and_the_squashfs(release, statement):
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert [each["digest"]["sha256"] for each in statement["subject"]] == [
        "1" * 64, "2" * 64, "3" * 64]
    assert statement["subject"][2]["name"] == release.record().data["squashfs"]["file"]


def test_every_input_is_a_dependency_by_digest(release, statement):
    definition = statement["predicate"]["buildDefinition"]
    found = {each["name"]: each["digest"] for each in definition["resolvedDependencies"]}
    assert found["source"] == {"gitCommit": git(release.project, "rev-parse", "HEAD")}
    assert found["flake input nix2container"] == {"gitCommit": REVISION}
    pins = release.record().data["pins"]
    assert {f"sha256:{found[path]['sha256']}" for path in ("flake.lock", "nix/pins/wheels.json")
            } == {pins["flake_lock"], pins["files"]["nix/pins/wheels.json"]}
    assert {"c-1.0-py3-none-any.whl", "base-files_1.0_amd64.deb"} <= found.keys()
    assert list(found) == sorted(found)


def test_what_slsa_requires_is_there(release, statement):
    definition, details = statement["predicate"]["buildDefinition"], statement["predicate"][
        "runDetails"]
    assert definition["buildType"] and details["builder"]["id"]
    assert definition["externalParameters"] == {"image": "t", "architecture": "amd64",
                                                "application": None}
    assert details["byproducts"][0]["digest"]["sha256"] == release.record().digest[7:]
    assert "metadata" not in details  # would be the clock's


def test_the_bytes_are_equal_from_two_clones(release, tmp_path):
    git(tmp_path, "clone", "-q", release.project, str(tmp_path / "clone"))
    assert made(release, tmp_path / "clone") == made(release)


def test_an_applications_commits_are_dependencies(release):
    application = {"commit": "b" * 40, "dirty": False, "submodules": {"m": "c" * 40},
                   "path": "/opt/x", "layer": release.export["layers"][0]}
    data = json.loads(provenance.compose(
        release.record(application=application), (release.project / "flake.lock").read_bytes(),
        inventory(release.image, release.project)))
    definition = data["predicate"]["buildDefinition"]
    found = {each["name"]: each["digest"] for each in definition["resolvedDependencies"]}
    assert found["application"] == {"gitCommit": "b" * 40}
    assert found["application/m"] == {"gitCommit": "c" * 40}
    assert definition["externalParameters"]["application"] == "/opt/x"


def test_another_flake_lock_is_refused(release):
    with pytest.raises(UserError, match=r"flake.lock is not"):
        provenance.compose(release.record(), b"{}", inventory(release.image, release.project))
