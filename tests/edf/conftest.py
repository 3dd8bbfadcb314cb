"""The pinned SquashFS programs, or the machine's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import images


@pytest.fixture(scope="session")
def programs() -> Path:
    """A folder with mksquashfs and unsquashfs."""
    if found := shutil.which("mksquashfs"):
        return Path(found).parent
    return images.STORE.physical(str(images.built("toolchain"))) / "bin"
