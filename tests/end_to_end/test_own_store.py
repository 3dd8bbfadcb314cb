"""A clone and a store of their own, filled from a folder: no network, no root kept elsewhere."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess

import pytest
from apertus_image.oci.image import Image
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
from support import images, own_store
from support.checkout import clean_clone
from support.checkouts import repository
from support.kills import Aim, adopting, run
from support.releasing import command, needs_programs, places, profile
from support.remains import Undisturbed

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """(clone, environment): the environment names a folder of inputs and an empty store."""
    folder = tmp_path_factory.mktemp("own")
    clone = clean_clone(folder / "clone")
    environment = own_store.environment(folder)
    yield clone, environment
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)


def tool(site, *command, **variables):
    clone, environment = site
    return subprocess.run([clone / "tools" / command[0], *command[1:], "--maker", "emitter"],
                          capture_output=True, text=True, env=environment | variables)


def test_prefetch_collect_garbage_build_offline(site, tmp_path):  # traps 9 and 11
    clone, environment = site
    brought = tool(site, "prefetch", "smoke-image", "--json")
    assert brought.returncode == 0, brought.stderr
    assert os.path.lexists(clone / ".roots/inputs-smoke-image")
    collected = subprocess.run(
        ["nix-store", "--store", environment["APERTUS_STORE"], *images.STORE.nix_args(), "--gc"],
        capture_output=True, text=True)
    assert collected.returncode == 0, collected.stderr
    nowhere = {"APERTUS_DEBIAN_MIRRORS": str(tmp_path), "APERTUS_PYPI_INDEX": str(tmp_path)}
    result = tool(site, "build", "smoke-image", **nowhere)
    assert result.returncode == 0, result.stderr
    found = images.Store(images.Path(environment["APERTUS_STORE"])).physical(result.stdout.strip())
    assert found.read_bytes() == images.built("smoke-image").read_bytes()


def test_the_export_of_another_physical_store_is_the_same_file(site, tmp_path):  # trap 11
    _, environment = site
    built = tool(site, "build", "smoke-image")
    assert built.returncode == 0, built.stderr
    result = tool(site, "export-sqsh", built.stdout.strip(), "-o", str(tmp_path), "--json")
    assert result.returncode == 0, result.stderr
    image = StoredImage(Image.load(images.built("smoke-image")))
    ours = Exporter(images.built("toolchain") / "bin").export(image, tmp_path / "ours.sqsh")
    told = json.loads(result.stdout)
    assert told["sha256"] == ours.record["sha256"] and told["image"] == ours.record["image"]


def test_a_users_code_gives_the_same_image_in_another_store(site, tmp_path):  # trap 11
    code = repository(tmp_path / "code", {"a.py": "a = 1\n", "link": "-> a.py"})
    theirs = tool(site, "build", "smoke-image", "--source", code)
    assert theirs.returncode == 0, theirs.stderr
    own = images.Store(images.Path(site[1]["APERTUS_STORE"]))
    ours = subprocess.run(
        [images.PROJECT / "tools/build", "smoke-image", "--maker", "emitter", "--source", code,
         "--out-link", tmp_path / "link"], capture_output=True, text=True)
    assert ours.returncode == 0, ours.stderr
    assert own.physical(theirs.stdout.strip()).read_bytes() == images.Path(
        ours.stdout.strip()).read_bytes()


def test_forgetting_is_a_command(site):
    clone, environment = site
    tool(site, "prefetch", "smoke-image")
    forgotten = tool(site, "prefetch", "--forget")
    assert forgotten.returncode == 0 and "forgot smoke-image" in forgotten.stderr
    assert not os.path.lexists(clone / ".roots/inputs-smoke-image")


def test_a_missing_input_is_one_error_that_names_it(site, tmp_path):
    nowhere = {"APERTUS_DEBIAN_MIRRORS": str(tmp_path), "APERTUS_PYPI_INDEX": str(tmp_path),
               "APERTUS_STORE": str(tmp_path / "empty")}
    result = tool(site, "build", "smoke-image", **nowhere)
    assert result.returncode == 1 and result.stdout == ""
    assert "idna-3.18-py3-none-any.whl" in result.stderr and "Traceback" not in result.stderr
    assert "tools/lock debian --gone" in result.stderr


@needs_programs
def test_a_release_from_nothing_goes_on_after_kills_within_downloads_and_builds(
        reference, tmp_path):
    at, chance, undisturbed = tmp_path / "site", random.Random(3), Undisturbed(places(reference))
    clone, file = clean_clone(tmp_path / "clone"), profile(at)
    environment = own_store.environment(tmp_path) | {"XDG_STATE_HOME": str(at / "state")}
    aims = [*(Aim("prefetch", chance.uniform(0, 3)) for _ in range(3)),
            *(Aim("build", chance.uniform(1, 12)) for _ in range(5))]
    with adopting():
        killed = [run(command(clone, file), environment, aim) for aim in aims]
        done = run(command(clone, file), environment)
    assert done.code == 0, done.said
    assert [each.step for each in killed].count("build") > 2
    assert not undisturbed.faults(places(at)) and not places(at).left_over()
    assert undisturbed.digests(places(at).published) == undisturbed.published
    checked = subprocess.run(
        ["nix-store", "--store", environment["APERTUS_STORE"], *images.STORE.nix_args(),
         "--verify", "--check-contents"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    subprocess.run(["chmod", "-R", "u+w", tmp_path], check=True)
