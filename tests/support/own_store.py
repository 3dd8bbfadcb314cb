"""A store of one's own: empty, and filled from a folder of the smoke image's inputs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from apertus_image.fetch.plan import inputs
from apertus_image.tree.machine import this_machine
from support.images import PROJECT, STORE

__all__ = ["environment"]


def environment(folder: Path) -> dict[str, str]:
    """Variables that name such a store below a folder, and no network.

    Skips where the inputs are not in this machine's store.
    """
    mirror = folder / "mirror"
    mirror.mkdir()
    wanted, boot = inputs(PROJECT / "nix/pins", ["smoke-image"], this_machine())
    for each in (*wanted, *boot.debs):
        file = STORE.physical(each.store_path)
        if not file.exists() and each not in boot.debs:
            pytest.skip("not run: the smoke image's inputs are not in the store")
        if file.exists():
            (mirror / each.pin.file).symlink_to(file)
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith("APERTUS_")} | {
        "APERTUS_STORE": str(folder / "root"), "XDG_CACHE_HOME": str(folder / "cache"),
        "APERTUS_DEBIAN_MIRRORS": str(mirror), "APERTUS_PYPI_INDEX": str(mirror),
    }
    # The bootstrap's own packages are not kept once it is unpacked: copy its tree.
    source, target = STORE.physical(boot.store_path), folder / "root"
    if not all((mirror / each.pin.file).exists() for each in boot.debs):
        subprocess.run(["nix", *STORE.nix_args(), "copy", "--no-check-sigs", "--to",
                        str(target), str(source)], check=True, capture_output=True)
    return variables
