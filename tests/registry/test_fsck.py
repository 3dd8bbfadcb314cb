"""What is damaged is found, all of it and nothing else, and mended by the next push."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time

import pytest
import requests
from apertus_image.registry.server.layout import LAYERS, REVISIONS, Layout
from support import site

pytestmark = site.needs_programs
ACCEPT = {"Accept": "application/vnd.oci.image.manifest.v1+json"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A registry's folder with two repositories that share a layer, and their layouts."""
    place = tmp_path_factory.mktemp("whole")
    layouts = {name: site.image(place / f"layout{n}", n, shared=b"shared" * 1000)
               for n, name in enumerate(["one", "deep/er/two"])}
    with site.serving(place / "registry") as server:
        for name, layout in layouts.items():
            site.push(layout, server, f"{name}:v1")
    return place / "registry", layouts


@pytest.fixture
def pushed(whole, tmp_path):
    """A copy of the folder, to be damaged, and the layouts of all."""
    folder, layouts = tmp_path / "registry", whole[1]
    # The configuration, written at each start, names the folder that it is for.
    shutil.copytree(whole[0], folder, ignore=shutil.ignore_patterns("config.yml"))
    return folder, layouts, Layout(folder / "data")


def fsck(folder):
    result = site.run("fsck", folder, "--json")
    assert "Traceback" not in result.stderr
    report = json.loads(result.stdout)
    assert result.returncode == (0 if report["clean"] else 1)
    return report


def truncate(file):
    os.truncate(file, file.stat().st_size // 2)


def flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_a_whole_registry_is_clean(pushed):
    folder, layouts, _ = pushed
    report = fsck(folder)
    assert report["clean"] and report["full"] and not report["manifests"]
    assert report["blobs"] == len(set().union(*map(site.blobs_of, layouts.values())))


@pytest.mark.parametrize("seed", range(4))
def test_exactly_what_was_damaged_is_found_and_a_push_mends_it(pushed, seed, tmp_path):
    folder, layouts, layout = pushed
    source = random.Random(seed)
    chosen = source.sample(layout.blobs(), source.randint(1, 4))
    deleted = set()
    for digest in chosen:
        harm = source.choice([truncate, flip, os.unlink])
        harm(layout.blob(digest))
        deleted |= {digest} if harm is os.unlink else set()
    report = fsck(folder)
    assert {each["digest"] for each in report["damaged"]} == set(chosen)
    assert {each["digest"] for each in report["damaged"] if each["got"] == "missing"} == deleted
    hurt = {name for name, local in layouts.items() if set(chosen) & site.blobs_of(local).keys()}
    gone = {name for name in hurt if site.manifest_of(layouts[name]) in chosen}
    assert set(report["tags"]) == {f"{name}:v1" for name in gone}
    assert {each["repository"]: set(each["missing"]) for each in report["manifests"]} == {
        name: set(chosen) & site.blobs_of(layouts[name]).keys() for name in hurt - gone}
    with site.serving(folder) as server:
        for name in hurt:
            for digest in set(chosen) & site.blobs_of(layouts[name]).keys():
                head = requests.head(f"{server.url}{name}/blobs/{digest}", timeout=10)
                assert head.status_code == 404
            site.push(layouts[name], server, f"{name}:v1")
        for n, (name, local) in enumerate(layouts.items()):
            back = site.pull(server, f"{name}:v1", tmp_path / f"back{n}")
            assert site.blobs_of(back) == site.blobs_of(local)
    assert fsck(folder)["clean"]


def test_without_fsck_a_push_keeps_a_damaged_blob(pushed, tmp_path):
    """The reason for removing, and the control of the test above."""
    folder, layouts, layout = pushed
    layer = sorted(site.blobs_of(layouts["one"]), key=lambda d: layout.size(d))[-1]
    flip(layout.blob(layer))
    with site.serving(folder) as server:
        site.push(layouts["one"], server, "one:v1")
    assert [each["digest"] for each in fsck(folder)["damaged"]] == [layer]


def test_links_that_are_gone_or_damaged_are_told(pushed):
    folder, layouts, layout = pushed
    manifests = {name: site.manifest_of(local) for name, local in layouts.items()}
    layer = min(site.blobs_of(layouts["one"]).keys() - {manifests["one"]})
    layout.link("one", LAYERS, layer).unlink()
    layout.link("deep/er/two", REVISIONS, manifests["deep/er/two"]).write_text("")
    report = fsck(folder)
    assert not report["damaged"]
    assert [(each["repository"], each["missing"], each["tags"]) for each in report["manifests"]] \
        == [("one", [layer], ["v1"])]
    assert len(report["links"]) == 1 and report["tags"] == ["deep/er/two:v1"]
    with site.serving(folder) as server:
        for name, local in layouts.items():
            site.push(local, server, f"{name}:v1")
    assert fsck(folder)["clean"]


def test_a_start_removes_what_has_another_length_and_says_what_is_gone(pushed):
    folder, layouts, layout = pushed
    layers = sorted(site.blobs_of(layouts["one"]).keys() - {site.manifest_of(layouts["one"])})
    truncate(layout.blob(layers[0]))
    layout.blob(layers[1]).unlink()
    with site.serving(folder) as server:
        for digest in layers[:2]:
            head = requests.head(f"{server.url}one/blobs/{digest}", timeout=10)
            assert head.status_code == 404
        said = server.end(15)[1]
    assert all(f"one:v1 misses {digest}" in said for digest in layers[:2])
    assert not any(digest in said for digest in layers[2:])


def test_a_running_registry_is_read_only(pushed):
    folder, _, layout = pushed
    digest = layout.blobs()[0]
    with site.serving(folder) as server:
        flip(layout.blob(digest))
        result = site.run("fsck", folder)
        assert result.returncode == 1 and digest in result.stdout
        assert "nothing was changed" in result.stderr and "tools/registry stop" in result.stderr
        assert layout.blob(digest).exists()
        assert requests.get(server.url, timeout=10).status_code == 200
    assert fsck(folder)["damaged"][0]["removed"] and not layout.blob(digest).exists()


def test_a_manifest_that_lies_costs_no_good_blob(pushed):
    """docker-registry 2.8 takes a manifest with a wrong size (notes on pushing)."""
    folder, layouts, layout = pushed
    file = layouts["one"] / "blobs/sha256" / site.manifest_of(layouts["one"]).split(":")[1]
    manifest = json.loads(file.read_text())
    manifest["layers"][0]["size"] += 1
    with site.serving(folder) as server:
        requests.put(f"{server.url}one/manifests/lie", json=manifest, timeout=10,
                     headers={"Content-Type": ACCEPT["Accept"]}).raise_for_status()
    with site.serving(folder):
        pass  # the quick check
    report = fsck(folder)
    assert not report["damaged"]
    assert [(each["tags"], each["wrong_size"]) for each in report["manifests"]] == [
        (["lie"], [manifest["layers"][0]["digest"]])]


def test_what_garbage_collection_deletes_is_not_missed(pushed):
    folder, layouts, layout = pushed
    with site.serving(folder) as server:
        requests.delete(f"{server.url}one/manifests/{site.manifest_of(layouts['one'])}",
                        timeout=10).raise_for_status()
    before = len(layout.blobs())
    subprocess.run(["docker-registry", "garbage-collect", folder / "config.yml"], check=True,
                   capture_output=True)
    assert len(layout.blobs()) == before - 5  # all but the shared layer
    assert fsck(folder)["clean"]
    with site.serving(folder) as server:
        site.push(layouts["one"], server, "one:v1")
    assert fsck(folder)["clean"]


def test_what_cannot_be_read_is_told_and_kept(pushed):
    folder, _, layout = pushed
    digest = layout.blobs()[0]
    layout.blob(digest).unlink()
    layout.blob(digest).mkdir()
    report = fsck(folder)
    assert [(each["digest"], each["removed"]) for each in report["damaged"]] == [(digest, False)]
    assert layout.blob(digest).exists() and "cannot be read" in report["damaged"][0]["got"]


def test_a_folder_that_cannot_be_listed_is_not_called_clean(pushed):
    folder, *_ = pushed
    layers = folder / "data/docker/registry/v2/repositories/one" / LAYERS
    shutil.rmtree(layers)
    layers.symlink_to(layers.name)  # to itself: an error for root, too
    result = site.run("fsck", folder)
    assert result.returncode == 1 and "cannot be checked" in result.stderr
    assert "Traceback" not in result.stderr


def test_uploads_of_long_ago_are_removed_at_a_start(pushed):
    folder, *_ = pushed
    with site.serving(folder) as server:
        for _ in range(2):
            requests.post(f"{server.url}one/blobs/uploads/", timeout=10).raise_for_status()
    uploads = folder / "data/docker/registry/v2/repositories/one/_uploads"
    old, new = sorted(uploads.iterdir())
    for each in [old, *old.rglob("*")]:
        os.utime(each, (time.time() - 8 * 86400,) * 2)
    with site.serving(folder):
        assert list(uploads.iterdir()) == [new]


def test_a_check_is_no_use_of_a_file(pushed):
    folder, _, layout = pushed
    files = [layout.blob(digest) for digest in layout.blobs()]
    control = folder / "control"
    shutil.copy(files[0], control)
    for file in [*files, control]:
        os.utime(file, (1e9, file.stat().st_mtime))
    control.read_bytes()
    if control.stat().st_atime == 1e9:
        pytest.skip("not run: this file system keeps no access times")
    assert fsck(folder)["clean"]
    assert {file.stat().st_atime for file in files} == {1e9}
