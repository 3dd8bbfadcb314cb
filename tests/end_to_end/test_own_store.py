"""A clone and a store of their own, filled from a folder: no network, no root kept elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from apertus_image.fetch.plan import inputs
from apertus_image.oci.image import Image
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
from apertus_image.tree.machine import this_machine
from support import images
from support.checkout import clean_clone
from support.checkouts import repository

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """(clone, environment): the environment names a folder of inputs and an empty store."""
    folder = tmp_path_factory.mktemp("own")
    clone, mirror = clean_clone(folder / "clone"), folder / "mirror"
    mirror.mkdir()
    wanted, boot = inputs(clone / "nix/pins", ["smoke-image"], this_machine())
    for each in (*wanted, *boot.debs):
        file = images.STORE.physical(each.store_path)
        if not file.exists() and each not in boot.debs:
            pytest.skip("not run: the smoke image's inputs are not in the store")
        if file.exists():
            (mirror / each.pin.file).symlink_to(file)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("APERTUS_")} | {
        "APERTUS_STORE": str(folder / "root"), "XDG_CACHE_HOME": str(folder / "cache"),
        "APERTUS_DEBIAN_MIRRORS": str(mirror), "APERTUS_PYPI_INDEX": str(mirror),
    }
    # The bootstrap's own packages are not kept once it is unpacked: copy its tree.
    source, target = images.STORE.physical(boot.store_path), folder / "root"
    if not all((mirror / each.pin.file).exists() for each in boot.debs):
        subprocess.run(["nix", *images.STORE.nix_args(), "copy", "--no-check-sigs", "--to",
                        str(target), str(source)], check=True, capture_output=True)
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
