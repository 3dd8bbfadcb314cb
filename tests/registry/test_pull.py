"""Pulling: verified, gone on with, and listed only when whole."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.layout import Layout
from apertus_image.registry.pull import pull
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.registry.source import from_image, from_layout
from fakes import registry as fake
from support import images
from support.distribution import running, skopeo
from support.pushing import MIB, four_layers


@pytest.fixture
def image(tmp_path):
    return four_layers(tmp_path, MIB)


@pytest.fixture
def pushed(bench, image):
    """An image in the registry; its reference by digest."""
    target = Reference(bench.registry.host, "team/image", "1")
    done = push(from_image(image), target, bench.client(), form="oci")
    bench.registry.asked.clear()
    return done.reference


def names(folder):
    return {path.name for path in (folder / "blobs/sha256").iterdir()}


def test_an_image_comes_whole_by_digest(bench, pushed, image, tmp_path):
    done = pull(pushed, bench.client(), tmp_path / "l")
    source = from_layout(Layout(tmp_path / "l"))
    assert source.original.digest == pushed.digest == done.reference.digest
    assert [blob.digest for blob, _ in source.layers] == [each.digest for each in image.layers]
    assert len(names(tmp_path / "l")) == 6 and done.present == 0


def test_a_tag_is_a_name_in_the_layout(bench, pushed, tmp_path):
    tagged = Reference(pushed.host, pushed.repository, "1")
    assert pull(tagged, bench.client(), tmp_path / "l").reference == pushed
    assert Layout(tmp_path / "l").manifest("1").digest == pushed.digest


def test_what_is_there_is_not_fetched(bench, pushed, tmp_path):
    pull(pushed, bench.client(), tmp_path / "l")
    bench.registry.asked.clear()
    done = pull(pushed, bench.client(), tmp_path / "l")
    assert not any("/blobs/" in each.url for each in bench.registry.asked)
    assert done.present == done.size


def test_a_cut_blob_is_gone_on_with(bench, pushed, image, tmp_path):
    digest = image.layers[0].digest
    whole = bench.registry.blobs[digest]

    def cut(handler, _body):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(whole)))
        handler.end_headers()
        handler.wfile.write(whole[: MIB // 2])
        handler.close_connection = True

    bench.registry.fault("GET", digest, cut)
    pull(pushed, bench.client(), tmp_path / "l")
    asked = [each for each in bench.registry.asked if digest in each.url]
    assert [each.headers.get("Range") for each in asked] == [None, f"bytes={MIB // 2}-"]
    assert (tmp_path / "l/blobs/sha256" / digest.removeprefix("sha256:")).read_bytes() == whole


def test_an_interrupted_pull_goes_on_and_is_not_listed_before(bench, pushed, image, tmp_path):
    digest = image.layers[2].digest
    bench.registry.fault("GET", digest, fake.answer(403))
    with pytest.raises(UserError, match="cannot be had") as error:
        pull(pushed, bench.client(), tmp_path / "l", workers=1)
    assert digest in error.value.where and Layout(tmp_path / "l").descriptors() == []
    bench.registry.asked.clear()
    pull(pushed, bench.client(), tmp_path / "l")
    assert len([each for each in bench.registry.asked if "/blobs/" in each.url]) < 5
    assert Layout(tmp_path / "l").manifest().digest == pushed.digest


def test_a_part_of_a_killed_pull_is_gone_on_with(bench, pushed, image, tmp_path):
    digest = image.layers[2].digest
    blobs = Layout.create(tmp_path / "l").path(digest).parent
    part = blobs / f"{digest.removeprefix('sha256:')}.part"
    part.write_bytes(bench.registry.blobs[digest][:5000])
    done = pull(pushed, bench.client(), tmp_path / "l")
    asked = [each for each in bench.registry.asked if digest in each.url]
    assert [each.headers.get("Range") for each in asked] == ["bytes=5000-"]
    assert done.present == 5000 and not part.exists()


def test_wrong_bytes_are_never_kept(bench, pushed, image, tmp_path):
    digest = image.layers[1].digest
    good = bench.registry.blobs[digest]
    bench.registry.blobs[digest] = b"x" + good[1:]
    with pytest.raises(UserError, match="wrong content"):
        pull(pushed, bench.client(), tmp_path / "l")
    assert digest.removeprefix("sha256:") not in names(tmp_path / "l")
    bench.registry.blobs[digest] = good
    pull(pushed, bench.client(), tmp_path / "l")


def test_a_damaged_blob_of_the_layout_is_fetched_again(bench, pushed, image, tmp_path):
    pull(pushed, bench.client(), tmp_path / "l")
    victim = Layout(tmp_path / "l").path(image.layers[1].digest)
    good = victim.read_bytes()
    victim.write_bytes(b"x" + good[1:])
    pull(pushed, bench.client(), tmp_path / "l")
    assert victim.read_bytes() == good


def test_a_manifest_of_another_digest_is_refused(bench, pushed, tmp_path):
    kind, data = bench.registry.manifests[pushed.digest]
    bench.registry.manifests[pushed.digest] = (kind, data + b"\n")
    with pytest.raises(UserError, match="another manifest"):
        pull(pushed, bench.client(), tmp_path / "l")


def test_what_is_not_there_is_told(bench, tmp_path):
    reference = Reference(bench.registry.host, "team/image", "none")
    with pytest.raises(UserError, match="no such image"):
        pull(reference, bench.client(), tmp_path / "l")
    assert not (tmp_path / "l").exists()


def test_an_index_lists_what_it_is_of(bench, tmp_path):
    index = {"schemaVersion": 2, "manifests": [
        {"digest": "sha256:" + "1" * 64, "platform": {"architecture": "arm64"}}]}
    bench.registry.manifests["many"] = ("application/vnd.oci.image.index.v1+json",
                                        json.dumps(index).encode())
    with pytest.raises(UserError, match="arm64: sha256:111"):
        pull(Reference(bench.registry.host, "team/image", "many"), bench.client(), tmp_path / "l")


def test_tokens_are_renewed_between_blobs(bench, pushed, tmp_path):  # case 20
    bench.login(fake.Login(uses=2))
    pull(pushed, bench.client(), tmp_path / "l", workers=1)
    assert len(bench.registry.login.tokens) == 4  # for ping, manifest and five blobs
    assert Layout(tmp_path / "l").manifest().digest == pushed.digest


def test_one_pull_writes_to_a_folder(bench, pushed, tmp_path):
    (tmp_path / "l").mkdir()
    handle = os.open(tmp_path / "l", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(UserError, match="another pull"):
        pull(pushed, bench.client(), tmp_path / "l")
    os.close(handle)
    pull(pushed, bench.client(), tmp_path / "l")


@pytest.mark.parametrize("form", ["oci", "v2s2"])
def test_from_the_real_registry_and_back(image, tmp_path, form):
    (tmp_path / "image.json").write_text(image.json())
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path)}

    def run(name, *arguments):
        done = subprocess.run([images.PROJECT / "tools" / name, *arguments], env=environment,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    with running(tmp_path / "registry") as registry:
        first = run("push-image", tmp_path / "image.json", f"docker://{registry.host}/a:1",
                    "--format", form)
        assert run("pull-image", f"docker://{first}", tmp_path / "l") == str(tmp_path / "l")
        second = run("push-image", tmp_path / "l", f"docker://{registry.host}/b:1",
                     "--format", form)
        assert first.partition("@")[2] == second.partition("@")[2]
    told = json.loads(skopeo("inspect", f"oci:{tmp_path}/l"))
    assert told["Digest"] == first.partition("@")[2]
