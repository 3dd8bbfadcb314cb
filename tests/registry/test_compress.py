"""Compressed layers: the same bytes everywhere, true media types, the same image ID."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess

import pytest
import zstandard
from apertus_image.errors import UserError
from apertus_image.registry.blobs import Blob, from_bytes
from apertus_image.registry.compress import LEVELS, Encoder, compressed
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.registry.source import from_image
from support import images
from support.distribution import inspect, running
from support.pushing import MIB, four_layers

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]
DECODERS = {"gzip": gzip.decompress,
            "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)}
# Of text(): golden, so that another encoder or another setting is noticed.
GOLDEN = {
    "gzip": "f329ba099cf72c613ab2cc8e4a93fad528d0ace0403a23724d8d5686d8c4960d",
    "zstd": "896c423ac570e56eec953cba7af24dcb418c760baa3f130ce8ee9975b529e413",
}


def text(size: int = 3 * MIB + 7) -> Blob:
    """A blob that compresses as code does, the same for everybody."""
    chance = random.Random(1)
    words = [chance.randbytes(chance.randint(2, 9)).hex() for _ in range(3000)]
    data = " ".join(chance.choice(words) for _ in range(size // 5)).encode()
    return from_bytes(data[:size])


@pytest.fixture(scope="module")
def program():
    return images.built("toolchain") / "bin/zstd"


@pytest.fixture(params=LEVELS)
def encoder(request, program):
    return Encoder(program, request.param, LEVELS[request.param])


@pytest.fixture
def image(tmp_path):
    return four_layers(tmp_path, MIB)


def test_the_bytes_are_known(encoder, monkeypatch):
    monkeypatch.setenv("ZSTD_CLEVEL", "19")
    monkeypatch.setenv("ZSTD_NBTHREADS", "4")
    data = b"".join(encoder.chunks(text()))
    assert hashlib.sha256(data).hexdigest() == GOLDEN[encoder.kind]
    assert DECODERS[encoder.kind](data) == b"".join(text().chunks())


def test_how_the_bytes_come_does_not_matter(encoder):
    blob = text()
    whole = b"".join(blob.chunks())
    slow = dataclasses.replace(blob, chunks=lambda: (whole[at : at + 4097] for at in range(
        0, len(whole), 4097)))
    assert b"".join(encoder.chunks(slow)) == b"".join(encoder.chunks(blob))


def test_the_image_id_stays(encoder, image):
    source = from_image(image)
    made = compressed(source, encoder)
    assert made.config.digest == image.image_id
    for (plain, _), (blob, kind) in zip(source.layers, made.layers, strict=True):
        data = b"".join(blob.chunks())
        assert kind == encoder.kind and len(data) == blob.size < plain.size
        assert blob.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
        assert DECODERS[kind](data) == b"".join(plain.chunks())


def test_digests_are_noted(encoder, image, tmp_path, monkeypatch):
    first = compressed(from_image(image), encoder, tmp_path / "notes")
    monkeypatch.setattr(Encoder, "chunks", lambda *_: pytest.fail("compressed again"))
    again = compressed(from_image(image), encoder, tmp_path / "notes")
    assert [b.digest for b, _ in again.layers] == [b.digest for b, _ in first.layers]


def test_other_settings_have_other_notes(program, image, tmp_path):
    one = compressed(from_image(image), Encoder(program, "zstd", 3), tmp_path / "notes")
    two = compressed(from_image(image), Encoder(program, "zstd", 9), tmp_path / "notes")
    assert one.layers[0][0].digest != two.layers[0][0].digest


def test_a_note_that_is_wrong_is_found_and_dropped(bench, encoder, image, tmp_path):
    compressed(from_image(image), encoder, tmp_path / "notes")
    for note in (tmp_path / "notes").iterdir():
        note.write_text(json.dumps(["sha256:" + "0" * 64, 5]))
    target = Reference(bench.registry.host, "a", "1")
    with pytest.raises(UserError, match="other bytes than before"):
        push(compressed(from_image(image), encoder, tmp_path / "notes"), target, bench.client(),
             form="oci", workers=1)
    assert not bench.registry.manifests and len(list((tmp_path / "notes").iterdir())) == 3


def test_a_layer_that_changed_is_named(encoder, image, tmp_path):  # case 2
    victim = tmp_path / "tree-1/opt/1/note"
    victim.chmod(0o644)
    victim.write_text("x\n")
    victim.chmod(0o444)
    with pytest.raises(UserError, match="/opt/1/note: its content"):
        compressed(from_image(image), encoder)


def test_a_reader_that_leaves_early_leaves_nothing_running(encoder):
    chunks = encoder.chunks(text(16 * MIB))
    next(chunks)
    chunks.close()
    running_now = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "comm="],
                                 capture_output=True, text=True).stdout
    assert "zstd" not in running_now


def test_a_compressor_that_fails_is_told(image, tmp_path):
    bad = tmp_path / "zstd"
    bad.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho broken >&2; exit 3\n")
    bad.chmod(0o755)
    with pytest.raises(UserError, match="broken"):
        compressed(from_image(image), Encoder(bad, "zstd", 3))
    with pytest.raises(UserError, match="cannot be run"):
        compressed(from_image(image), Encoder(tmp_path / "none", "zstd", 3))


def test_the_command_records_the_encoder(encoder, image, tmp_path):
    (tmp_path / "image.json").write_text(image.json())
    with running(tmp_path / "registry") as registry:
        done = subprocess.run(
            [images.PROJECT / "tools/push-image", tmp_path / "image.json", "--json", "--maker",
             "emitter", "--compression", encoder.kind, f"docker://{registry.host}/a:1"],
            capture_output=True, text=True, env=os.environ | {"XDG_STATE_HOME": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["image"] == image.image_id and "1.5.7" in told["compression"]["encoder"]
        assert told["format"] == ("oci" if encoder.kind == "zstd" else "v2s2")
        assert len(inspect(told["reference"])["Layers"]) == 4
