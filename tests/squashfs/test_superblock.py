"""What a SquashFS says of itself, with unsquashfs as the referee."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from apertus_image.errors import UserError
from apertus_image.squashfs import superblock
from support import images


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
@pytest.mark.parametrize(("compressor", "block"), [("zstd", 1 << 20), ("gzip", 4096),
                                                   ("xz", 1 << 17), ("lzo", 1 << 16)])
def test_it_is_read_as_unsquashfs_reads_it(tmp_path, compressor, block):
    programs = images.built("toolchain") / "bin"
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/x").write_bytes(b"text" * 5000)
    file = tmp_path / "x.sqsh"
    subprocess.run([programs / "mksquashfs", tmp_path / "tree", file, "-comp", compressor, "-b",
                    str(block), "-mkfs-time", "7", "-quiet", "-no-progress"], check=True,
                   capture_output=True)
    found = superblock.read(file)
    said = subprocess.run([programs / "unsquashfs", "-s", file], capture_output=True, text=True,
                          check=True).stdout
    assert f"Compression {found.compressor}\n" in said and found.compressor == compressor
    assert int(re.search(r"Filesystem size (\d+) bytes", said)[1]) == found.used
    assert (found.block, found.version, found.time) == (block, (4, 0), 7)
    assert found.size == file.stat().st_size


@pytest.mark.parametrize("data", [b"", b"hsqs", b"sqsh" + bytes(92)])
def test_what_is_none_is_refused(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(UserError, match="not a SquashFS"):
        superblock.read(tmp_path / "x")
