"""Pushing: only what is missing, checked, the manifest last, and no tag before that."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import threading

import pytest
import zstandard
from apertus_image.errors import UserError
from apertus_image.oci.layout import Descriptor, Layout
from apertus_image.registry.chunks import ChunkSize
from apertus_image.registry.manifest import FORMATS
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.registry.source import from_image, from_layout
from fakes import registry as fake
from support import pushing
from support.pushing import MIB, four_layers

OCI, V2S2 = FORMATS["oci"], FORMATS["v2s2"]


@pytest.fixture
def image(tmp_path):
    return four_layers(tmp_path)


def send(bench, source, tag="1", **options):
    target = Reference(bench.registry.host, "team/image", tag)
    options.setdefault("chunk", ChunkSize(MIB))
    return push(source, target, bench.client(), say=bench.said.append, **options)


def test_an_image_arrives_and_the_manifest_comes_last(bench, image):
    done = send(bench, from_image(image), form="oci")
    kind, data = bench.registry.manifests["1"]
    manifest = json.loads(data)
    assert kind == manifest["mediaType"] == OCI.manifest
    assert manifest["config"]["digest"] == image.image_id == done.image_id
    assert [each["digest"] for each in manifest["layers"]] == [
        each.digest for each in image.layers]
    assert [each["size"] for each in manifest["layers"]] == [each.size for each in image.layers]
    assert bench.registry.blobs[image.image_id] == image.config_blob()
    assert str(done.reference) == (
        f"{bench.registry.host}/team/image@sha256:{hashlib.sha256(data).hexdigest()}")
    assert [each.method for each in bench.registry.asked[-2:]] == ["PUT", "GET"]
    assert done.sent == sum(each.size for each in image.layers) + len(image.config_blob())


def test_a_second_push_sends_nothing(bench, image):  # case 7
    send(bench, from_image(image))
    bench.registry.asked.clear()
    done = send(bench, from_image(image))
    assert done.sent == bench.registry.body_bytes() == 0 and not done.moved
    assert {each.what for each in done.outcomes.values()} == {"exists"}
    assert sorted(each.method for each in bench.registry.asked) == ["GET"] * 2 + ["HEAD"] * 5


def test_a_change_of_the_last_layer_sends_that_layer(bench, image, tmp_path):
    send(bench, from_image(image))
    changed = pushing.layer(pushing.tree(tmp_path / "patch", {"opt/3/note": "another\n"}))
    bench.registry.asked.clear()
    send(bench, from_image(pushing.image([*image.layers[:3], changed])))
    assert bench.registry.body_bytes() < 20000


def test_three_layers_are_in_flight(bench, image):
    meeting, own, client = threading.Barrier(3, timeout=30), threading.local(), bench.client()
    send_one = client.send

    def together(method, *rest, **more):
        if method == "PATCH" and not hasattr(own, "met"):
            own.met = meeting.wait()  # breaks unless three are in the middle of a layer
        return send_one(method, *rest, **more)

    client.send = together
    push(from_image(image), Reference(bench.registry.host, "a", "1"), client, workers=3,
         chunk=ChunkSize(MIB))
    assert len(bench.registry.blobs) == 5


@pytest.mark.parametrize("fault", [
    ("POST", "uploads", 403, "DENIED"), ("PATCH", "", 403, "DENIED"), ("PUT", "uploads", 403, "")])
def test_where_a_blob_fails_no_tag_moves(bench, image, fault):
    method, pattern, status, code = fault
    bench.registry.manifests["1"] = before = (V2S2.manifest, b"{}")
    bench.registry.fault(method, pattern, fake.answer(status, fake.error(code)))
    with pytest.raises(UserError, match="HTTP 403"):
        send(bench, from_image(image))
    assert bench.registry.manifests == {"1": before}
    assert not any("manifests" in each.url for each in bench.registry.sent("PUT"))


def test_a_failure_stops_the_others(bench, tmp_path):
    image = four_layers(tmp_path, 20 * MIB)
    bench.registry.fault("PATCH", "/1\\?_state=1", fake.answer(403))
    with pytest.raises(UserError, match="HTTP 403"):
        send(bench, from_image(image))
    assert len(bench.registry.sent("PATCH")) < 20 and not bench.registry.blobs


def test_a_changed_file_is_named_before_the_manifest(bench, image, tmp_path):  # case 2
    victim = tmp_path / "tree-2/opt/2/note"
    victim.chmod(0o644)
    victim.write_text("x\n")
    victim.chmod(0o444)
    with pytest.raises(UserError) as error:
        send(bench, from_image(image))
    assert error.value.where == "/opt/2/note: its content"
    assert image.layers[2].digest in error.value.what
    assert not bench.registry.manifests and image.layers[2].digest not in bench.registry.blobs


def test_a_changed_mode_is_named(bench, image, tmp_path):  # case 2
    (tmp_path / "tree-2/opt/2/note").chmod(0o555)
    with pytest.raises(UserError, match="/opt/2/note: its mode"):
        send(bench, from_image(image))


@pytest.mark.parametrize("length", ["7", None])
def test_a_damaged_blob_that_a_201_hides_is_found(bench, image, length):
    digest = image.layers[0].digest
    reply = fake.answer(200, Content_Length=length) if length else fake.answer(404)
    bench.registry.fault("HEAD", digest, reply, 99)
    with pytest.raises(UserError, match="took a blob and has another") as error:
        send(bench, from_image(image))
    assert digest in error.value.expected and not bench.registry.manifests


def test_a_registry_that_rewrites_the_manifest_is_found(bench, image):  # case 26
    def rewrite(handler, body):
        body = json.dumps(json.loads(body), indent=1).encode()
        handler.serve(body)

    bench.registry.fault("PUT", "manifests", rewrite)
    with pytest.raises(UserError, match="changed the manifest"):
        send(bench, from_image(image))


def test_busy_at_the_manifest(bench, image):  # case 25
    bench.registry.fault("PUT", "manifests", fake.answer(429, Retry_After="2"), 2)
    assert send(bench, from_image(image)).moved and len(bench.waits) == 2


def test_by_digest_alone(bench, image):
    done = send(bench, from_image(image), tag="")
    assert list(bench.registry.manifests) == [done.reference.digest]
    other = Reference(bench.registry.host, "team/image", digest="sha256:" + "0" * 64)
    with pytest.raises(UserError, match="another digest"):
        push(from_image(image), other, bench.client())


@pytest.mark.parametrize(("login", "form"), [
    (None, "v2s2"), (fake.Login("basic"), "v2s2"), (fake.Login(), "oci")])
def test_auto_is_what_enroot_can_import(bench, image, login, form):
    if login:
        bench.login(login)
    done = send(bench, from_image(image))
    assert done.form == form and set(done.manifests) == {"oci", "v2s2"}
    assert done.manifests[form] == done.reference.digest
    assert bool(bench.said) == (form == "v2s2")


def test_what_enroot_asks_is_answered(bench, image):
    """Its requests, in its order: the first names no OCI type (notes on Enroot, 0.1)."""
    done = send(bench, from_image(image))
    client = bench.client()

    def ask(url, *types, method="GET"):
        headers = {"Accept": ", ".join(types)} if types else {"Accept": "*/*"}
        return client.send(method, url, "", headers=headers, expect=(200, 404))

    url = client.url("team/image", "manifests", "1")
    assert ask(url, method="HEAD").status == 200
    ask(url, "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.index.v1+json")
    manifest = ask(url, V2S2.manifest, OCI.manifest).json()
    assert manifest["config"]["digest"] == image.image_id
    for each in manifest["layers"]:
        data = ask(client.url("team/image", "blobs", each["digest"])).body
        assert hashlib.sha256(data).hexdigest() == each["digest"].removeprefix("sha256:")
    # The negative control: an OCI manifest is not found by the first question.
    bench.registry.manifests["2"] = (OCI.manifest, from_image(image).manifest("oci").data)
    assert ask(client.url("team/image", "manifests", "2"), method="HEAD").status == 404
    assert done.form == "v2s2"


def layout(folder, image, encode=lambda tar: tar, media=OCI.layers["tar"], indent=None):
    """An OCI layout of an image, its layers encoded, its manifest in bytes of its own."""
    made = Layout.create(folder)
    source = from_image(image)
    layers = []
    for blob, _ in source.layers:
        digest, size = made.add([encode(b"".join(blob.chunks()))])
        layers.append({"mediaType": media, "digest": digest, "size": size})
    made.add(source.config.chunks())
    fields = {"schemaVersion": 2, "mediaType": OCI.manifest, "config": {
        "mediaType": OCI.config, "digest": source.config.digest, "size": source.config.size},
        "layers": layers, "annotations": {"a": "b"}}
    made.tag(Descriptor(OCI.manifest, *made.add([json.dumps(fields, indent=indent).encode()]), {}))
    return made


def test_a_layouts_manifest_keeps_its_bytes(bench, image, tmp_path):  # case 26
    made = layout(tmp_path / "layout", image, indent=3)
    done = send(bench, from_layout(made), form="oci")
    assert done.reference.digest == made.manifest().digest
    assert bench.registry.manifests["1"][1] == made.path(done.reference.digest).read_bytes()


ENCODERS = {"tar": lambda tar: tar, "gzip": lambda tar: gzip.compress(tar, 1, mtime=0),
            "zstd": zstandard.ZstdCompressor(1).compress}


@pytest.mark.parametrize("kind", ENCODERS)
def test_media_types_are_those_of_the_bytes(bench, image, tmp_path, kind):  # case 27
    made = layout(tmp_path / "layout", image, ENCODERS[kind], OCI.layers[kind])
    done = send(bench, from_layout(made))
    form = "oci" if kind == "zstd" else "v2s2"  # Docker has no type for zstd
    assert done.form == form
    manifest = json.loads(bench.registry.manifests["1"][1])
    assert {each["mediaType"] for each in manifest["layers"]} == {FORMATS[form].layers[kind]}
    if kind == "zstd":
        assert set(done.manifests) == {"oci"}
        with pytest.raises(UserError, match="cannot name a layer compressed with zstd"):
            send(bench, from_layout(made), form="v2s2")
        return
    for each, layer in zip(manifest["layers"], image.layers, strict=True):
        # Enroot passes every layer but OCI's zstd through gzip in force mode.
        tar = subprocess.run(["gzip", "-d", "-f", "-c"], check=True, capture_output=True,
                             input=bench.registry.blobs[each["digest"]]).stdout
        assert f"sha256:{hashlib.sha256(tar).hexdigest()}" == layer.digest


@pytest.mark.parametrize("said", ["tar", "gzip", "zstd"])
@pytest.mark.parametrize("kind", ENCODERS)
def test_a_media_type_that_is_not_true_is_refused(bench, image, tmp_path, kind, said):  # case 27
    made = layout(tmp_path / "layout", image, ENCODERS[kind], OCI.layers[said])
    if kind == said:
        from_layout(made)
        return
    with pytest.raises(UserError, match="contradicts its bytes"):
        from_layout(made)


def test_a_layer_of_an_unknown_kind_is_refused(image, tmp_path):
    made = layout(tmp_path / "layout", image, media="application/x-foreign")
    with pytest.raises(UserError, match="unknown media type"):
        from_layout(made)


def test_a_layout_that_is_damaged_is_found_before_the_manifest(bench, image, tmp_path):
    made = layout(tmp_path / "layout", image)
    victim = made.path(image.layers[1].digest)
    data = bytearray(victim.read_bytes())
    data[700] ^= 1
    victim.write_bytes(data)
    with pytest.raises(UserError, match="not what its digest says"):
        send(bench, from_layout(made))
    assert not bench.registry.manifests
