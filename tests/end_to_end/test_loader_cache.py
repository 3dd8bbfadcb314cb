"""The loader's cache of real images, with the image's own ldconfig as referee."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from apertus_image.elf.ldcache import CACHE, parse
from apertus_image.oci.image import Image
from support import images

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(os.geteuid() != 0, reason="not run: mounting and chroot need root"),
]
EMULATOR = {"x86_64": None, "aarch64": "qemu-aarch64-static"}

# The layers' trees are seen as one by an overlay in a mount namespace: nothing is copied.
INSIDE = """
set -e
mount -t tmpfs tmpfs "$1" || exit 77
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root" || exit 77
if [ -n "$4" ]; then cp "$4" "$1/root/emulator"; fi
chroot "$1/root" ${4:+/emulator} /usr/sbin/ldconfig -X -C /etc/real.cache
cp "$1/root/etc/real.cache" "$3"
"""


@pytest.mark.parametrize("name", ["smoke-image", "apertus-image"])
@pytest.mark.parametrize("machine", EMULATOR)
def test_ldconfig_would_write_the_same_entries(tmp_path, name, machine):  # trap 15, case 46
    if name == "apertus-image" and not images.full_image_is_here(machine):
        pytest.skip(f"not run: the full image for {machine} is not in the store")
    emulator = EMULATOR[machine] and shutil.which(EMULATOR[machine])
    if EMULATOR[machine] and not emulator:
        pytest.skip(f"not run: {EMULATOR[machine]} is not here")
    image = Image.load(images.built(f"{name}-{machine}"))
    trees = [images.STORE.physical(path.path) for layer in image.layers for path in layer.paths]
    (tmp_path / "mount").mkdir()
    made = tmp_path / "made"
    result = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", INSIDE, "sh",
         tmp_path / "mount", ":".join(map(str, reversed(trees))), made, emulator or ""],
        capture_output=True, text=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    if result.returncode == 77:
        pytest.skip("not run: an overlay cannot be mounted here")
    assert result.returncode == 0, result.stderr
    ours, = (each for tree in trees if (each := tree / CACHE.lstrip("/")).exists())
    entries = parse(ours.read_bytes())
    assert entries == parse(made.read_bytes())
    names = {entry.name for entry in entries}
    assert "libc.so.6" in names and ("libcudart.so" in names) == (name == "apertus-image")
