"""Exports of this project's images: one file of bits wherever they are made, and it runs."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from apertus_image.oci.image import Image
from apertus_image.oci.layer import stream
from apertus_image.oci.layout import Descriptor, Layout
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import LayoutImage, StoredImage
from support import images
from support.checkout import clean_clone, git

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
NEEDED = 15 * 2**30


@pytest.fixture(scope="module")
def programs():
    return images.built("toolchain") / "bin"


@pytest.fixture(scope="module")
def smoke():
    return Image.load(images.built("smoke-image"))


@pytest.fixture(scope="module")
def exported(smoke, programs, tmp_path_factory):
    return Exporter(programs).export(StoredImage(smoke), tmp_path_factory.mktemp("smoke"))


def layout_of(image: Image, folder: Path, compress: list[str] | None = None) -> Layout:
    """The image as an OCI layout, its layers through a program if one is given."""
    layout = Layout.create(folder)
    kind = f"+{Path(compress[0]).name}" if compress else ""

    def add(media_type: str, chunks) -> dict:
        digest, size = layout.add(chunks)
        return Descriptor(media_type, digest, size, {}).json()

    def layer(paths):
        if not compress:
            return stream(paths)
        plain = folder / "layer.tar"
        with plain.open("wb") as out:
            out.writelines(stream(paths))
        return [subprocess.run(compress, stdin=plain.open("rb"), capture_output=True,
                               check=True).stdout]

    layers = [add(f"application/vnd.oci.image.layer.v1.tar{kind}", layer(each.paths))
              for each in image.layers]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST,
                "config": add(CONFIG, [image.config_blob()]), "layers": layers}
    digest, size = layout.add([json.dumps(manifest).encode()])
    layout.tag(Descriptor(MANIFEST, digest, size, {}), "v1")
    return layout


@pytest.mark.parametrize("compress", [None, ["gzip", "-n1"], ["zstd", "-q"]])
def test_a_layout_gives_the_bits_of_the_store(  # case 27
        compress, smoke, exported, programs, tmp_path):
    if compress and compress[0] == "zstd":
        compress = [str(programs / "zstd"), *compress[1:]]
    layout = layout_of(smoke, tmp_path / "layout", compress)
    source = LayoutImage(layout, "v1")
    assert source.image_id == smoke.image_id
    done = Exporter(programs).export(source, tmp_path)
    assert done.path.name == exported.path.name
    assert done.record == exported.record


def test_another_makers_image_gives_the_same_file(exported, programs, tmp_path):
    other = Image.load(images.built("smoke-image", "nix2container"))
    assert Exporter(programs).export(StoredImage(other), tmp_path).record == exported.record


def test_another_clone_another_commit_another_user_give_the_same_file(exported, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("not run: becoming another user needs root")
    clone = clean_clone(tmp_path / "elsewhere/deeper")
    (clone / "README.md").write_text("another commit\n")
    git(clone, "commit", "--quiet", "--all", "--message", "another")
    built = images.built("smoke-image", "emitter", clone)
    tools = images.built("toolchain") / "bin"
    # The file is written by nobody, who cannot write to the store or read the clone.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        library, out = Path(folder, "library"), Path(folder, "out")
        shutil.copytree(clone / "tools/apertus_image", library / "apertus_image")
        out.mkdir()
        shutil.chown(out, "nobody")
        result = subprocess.run(
            [tools / "python3.13", "-IB", "-c", AS_NOBODY, library, built, tools, out],
            capture_output=True, text=True, user="nobody", group="nogroup", extra_groups=[],
            umask=0o077)
    assert result.stdout.strip() == exported.record["sha256"], result.stderr


AS_NOBODY = """\
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from apertus_image.oci.image import Image
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
built, tools, out = map(Path, sys.argv[2:])
print(Exporter(tools).export(StoredImage(Image.load(built)), out).record["sha256"])
"""


@pytest.fixture(scope="module")
def full(programs, tmp_path_factory):
    """The full image's export."""
    if not images.full_image_is_here():
        pytest.skip("not run: the full image is not in the store (tools/build)")
    folder = tmp_path_factory.mktemp("full")
    if shutil.disk_usage(folder).free < NEEDED:
        pytest.skip("not run: no room to export the full image")
    image = StoredImage(Image.load(images.built("apertus-image-x86_64")))
    yield Exporter(programs).export(image, folder)
    shutil.rmtree(folder)


def test_the_full_image_is_mounted_and_imports_vllm(full, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("not run: mounting needs root")
    root = shlex.quote(str(tmp_path))
    mounts = (f"mount -o loop,ro -t squashfs {shlex.quote(str(full.path))} {root} &&"
              f"mount -t tmpfs none {root}/dev && mknod {root}/dev/null c 1 3 &&"
              f"mknod {root}/dev/urandom c 1 9 && mkdir {root}/dev/shm &&"
              f"mount -t tmpfs none {root}/tmp && mount -t proc none {root}/proc")
    # The mounts are this shell's own, and go with it.
    there = subprocess.run(["unshare", "--mount", "sh", "-c", mounts], capture_output=True,
                           text=True)
    if there.returncode:
        pytest.skip(f"not run: no loop mounts here: {there.stderr.strip()}")
    # /etc/rc is what Pyxis starts a container with.
    inside = f"chroot {root} /usr/bin/env -i $(cat {root}/etc/environment) HOME=/tmp /bin/sh " \
             "/etc/rc python -c 'import vllm; print(vllm.__version__)'"
    result = subprocess.run(["unshare", "--mount", "sh", "-c", f"{mounts} && {inside}"],
                            capture_output=True, text=True)
    assert result.stdout.split()[-1:] == ["0.25.1"], result.stderr[-2000:]


def test_the_full_images_checksum_is_the_files(full):
    with full.path.open("rb") as data:
        assert hashlib.file_digest(data, "sha256").hexdigest() == full.record["sha256"]
    assert full.record["check"] == "full"
