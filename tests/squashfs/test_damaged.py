"""Layouts whose parts contradict each other: one clear error, and nothing written."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import pytest
from apertus_image.errors import UserError
from squashfs.test_hostile import nothing_left
from support import layouts
from support.exports import export, needs_nix

pytestmark = needs_nix
MEMBERS = [layouts.file("a", "text" * 999), layouts.folder("d")]
DIGEST = "sha256:" + "0" * 64


def blob_of(layout, number=0):
    index = json.loads((layout / "index.json").read_text())
    manifest = path_of(layout, index["manifests"][0])
    return path_of(layout, json.loads(manifest.read_text())["layers"][number])


def path_of(layout, descriptor):
    return layout / "blobs" / descriptor["digest"].replace(":", "/")


def refused(layout, tmp_path):
    """The one error of an export, which left nothing behind."""
    with pytest.raises(UserError) as caught:
        export(layout, tmp_path / "out.sqsh")
    assert nothing_left(tmp_path) == []
    return caught.value


@pytest.fixture
def laid(tmp_path):
    return lambda *layers: layouts.layout(tmp_path / "layout", layers)


def test_a_whole_layout_is_exported(laid, tmp_path):  # the control
    assert export(laid(layouts.layer(*MEMBERS)), tmp_path / "out.sqsh").written


@pytest.mark.parametrize("told", [layouts.PLAIN, layouts.GZIP, layouts.ZSTD, layouts.DOCKER_GZIP])
@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_media_type_that_the_bytes_contradict(told, compression, laid, tmp_path):  # case 27
    layer = layouts.layer(*MEMBERS, compression=compression, media_type=told)
    layout = laid(layer)
    true = {"none": [layouts.PLAIN], "gzip": [layouts.GZIP, layouts.DOCKER_GZIP],
            "zstd": [layouts.ZSTD]}[compression]
    if told in true:
        assert export(layout, tmp_path / "out.sqsh").written
        return
    error = refused(layout, tmp_path)
    assert layouts.digest(layer.blob)[7:19] in str(error)
    assert told in str(error) or compression in str(error)


@pytest.mark.parametrize("media_type", [
    "application/vnd.oci.image.layer.v1.tar+xz", "application/vnd.oci.image.layer.v1.tar+encrypted",
    "application/vnd.in-toto+json", ""])
def test_a_media_type_that_is_no_layers(media_type, laid, tmp_path):  # case 27
    error = refused(laid(layouts.layer(*MEMBERS, media_type=media_type)), tmp_path)
    assert media_type in str(error)


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_blob_with_one_byte_changed(compression, laid, tmp_path):  # case 2
    layout = laid(layouts.layer(*MEMBERS, compression=compression))
    blob = blob_of(layout)
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.write_bytes(data)
    assert blob.name[:12] in str(refused(layout, tmp_path))


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("left", [0, 100])
def test_a_blob_cut_short(compression, left, laid, tmp_path):
    layout = laid(layouts.layer(*MEMBERS, compression=compression))
    blob = blob_of(layout)
    blob.write_bytes(blob.read_bytes()[:left])
    assert blob.name[:12] in str(refused(layout, tmp_path))


@pytest.mark.parametrize("compression", ["gzip", "members", "zstd", "frames"])
def test_packed_data_cut_short_under_a_true_digest(compression, laid, tmp_path):
    layer = layouts.layer(*MEMBERS, compression=compression)
    refused(laid(replace(layer, blob=layer.blob[:-5])), tmp_path)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_bytes_after_packed_data(compression, laid, tmp_path):
    layer = layouts.layer(*MEMBERS, compression=compression)
    refused(laid(replace(layer, blob=layer.blob + b"more of it")), tmp_path)


@pytest.mark.parametrize("wrong", [{"diff_id": DIGEST}, {"digest": DIGEST}, {"size": 1},
                                   {"size": 1 << 40}, {"diff_id": "sha256:../../x"},
                                   {"diff_id": "md5:00"}])
def test_a_fact_that_is_not_true(wrong, laid, tmp_path):
    refused(laid(layouts.layer(*MEMBERS, compression="gzip", **wrong)), tmp_path)


@pytest.mark.parametrize("part", ["oci-layout", "index.json", "blobs", "a layer"])
def test_a_part_that_is_missing(part, laid, tmp_path):
    layout = laid(layouts.layer(*MEMBERS))
    missing = blob_of(layout) if part == "a layer" else layout / part
    missing.rename(tmp_path / "layout/elsewhere")
    refused(layout, tmp_path)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"schemaVersion": 2}',
                                  b'{"manifests": []}', b'{"manifests": [{}]}', b"\xff\xfe",
                                  b'{"manifests": [{"digest": "sha256:../../../etc/passwd"}]}',
                                  b'{"manifests": {"a": 1}}', b'{"manifests": [1]}', b"[" * 100000])
@pytest.mark.parametrize("document", ["index", "manifest", "config"])
def test_a_document_that_is_none(document, data, laid, tmp_path):
    layout = laid(layouts.layer(*MEMBERS))
    documents = documents_of(layout)
    refused(with_document(layout, documents, document, data), tmp_path)


def documents_of(layout):
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(path_of(layout, index["manifests"][0]).read_text())
    config = json.loads(path_of(layout, manifest["config"]).read_text())
    return {"index": index, "manifest": manifest, "config": config}


def with_document(layout, documents, name, data):
    """Put other bytes in a document's place, under true digests and sizes."""
    def put(content, descriptor):
        told = layouts.digest(content)
        (layout / "blobs/sha256" / told[7:]).write_bytes(content)
        return descriptor | {"digest": told, "size": len(content)}

    index, manifest = documents["index"], documents["manifest"]
    if name == "config":
        data = json.dumps(manifest | {"config": put(data, manifest["config"])}).encode()
    if name != "index":
        data = json.dumps(index | {"manifests": [put(data, index["manifests"][0])]}).encode()
    (layout / "index.json").write_bytes(data)
    return layout


WRONG = [None, True, 1, -1, 1.5, 1 << 70, "", "x", "\0", "\ud800", "../x", [], [1], ["x"], {},
         {"a": 1}]


def changed(value):
    """(where, value with another value in one place) for every place and every wrong value."""
    for wrong in WRONG:
        yield "", wrong
    items = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())
    for key, inner in items:
        for where, other in changed(inner):
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[key] = other
            yield f"/{key}{where}", copy


@pytest.mark.parametrize("document", ["index", "manifest", "config"])
def test_no_value_of_a_document_gives_a_traceback(document, tmp_path):
    config = {"Env": ["A=1"], "Cmd": ["x"], "Entrypoint": ["y"], "Labels": {"a": "b"},
              "Volumes": {"/v": {}}, "WorkingDir": "/w", "User": "u"}
    layout = layouts.layout(tmp_path / "layout", [layouts.layer(*MEMBERS)], config)
    documents = documents_of(layout)
    documents["index"]["manifests"][0] |= {
        "annotations": {"org.opencontainers.image.ref.name": "n"},
        "platform": {"architecture": "amd64", "os": "linux"}}
    refusals, tracebacks = 0, []
    for number, (where, other) in enumerate(changed(documents[document])):
        with_document(layout, documents, document, json.dumps(other).encode())
        try:
            export(layout, tmp_path / f"{number}.sqsh")
        except UserError:
            refusals += 1
        except Exception as error:
            tracebacks.append(f"{where}: {error!r}")
    assert not tracebacks, "\n".join(tracebacks)
    assert refusals > 50


@pytest.mark.parametrize("config", [
    {"Env": "A=1"}, {"Env": [1]}, {"Cmd": "x"}, {"Cmd": [None]}, {"Entrypoint": {"a": "b"}},
    {"Labels": ["x"]}, {"Labels": {"a": 1}}, {"WorkingDir": 1}, {"WorkingDir": ["x"]},
    {"Volumes": ["/x"]}, {"WorkingDir": "relative"}, {"WorkingDir": "/a/../../b"},
    {"WorkingDir": "/a\nb"}, {"WorkingDir": "/a\0b"}, {"Cmd": ["a\0b"]}, {"Env": ["A=\0"]},
    {"Volumes": {"/a b": {}}}, {"Volumes": {"rel": {}}}, {"Volumes": {"/a\\040b": {}}},
    {"Env": ["A=${B}"]}, {"Env": ["A=1\nB=2"]},
])
def test_a_config_that_enroot_could_not_follow(config, tmp_path):
    layout = layouts.layout(tmp_path / "layout", [layouts.layer(*MEMBERS)], config)
    refused(layout, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can mount a small disk")
def test_no_room_for_what_is_packed(laid, tmp_path):
    layout = laid(layouts.layer(layouts.file("a", bytes(20 << 20)), compression="gzip"))
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", small], check=True)
    try:
        with pytest.raises(UserError) as caught:
            export(layout, small / "out.sqsh")
        assert list(small.iterdir()) == [] and "room" in caught.value.next_step
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("config", [
    {}, {"Env": None, "Cmd": None, "Labels": None, "Volumes": None, "WorkingDir": None},
    {"Env": [], "Cmd": [], "Labels": {}, "Volumes": {}, "WorkingDir": "", "Entrypoint": []},
    {"Unknown": {"a": 1}, "User": "1000", "Healthcheck": {"Test": ["NONE"]}},
])
def test_a_config_that_says_little(config, tmp_path):
    layout = layouts.layout(tmp_path / "layout", [layouts.layer(*MEMBERS)], config)
    assert export(layout, tmp_path / "out.sqsh").written
