"""Exports of OCI layouts, and of small images, for tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from apertus_image.oci.layout import Layout
from apertus_image.squashfs.export import Exported, Exporter
from apertus_image.squashfs.source import LayoutImage
from support import images

needs_nix = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]


def programs() -> Path:
    """Folder of the pinned mksquashfs and unsquashfs."""
    return images.built("toolchain") / "bin"


def export(layout: Path, out: Path, **options) -> Exported:
    return Exporter(programs(), **options).export(LayoutImage(Layout(layout)), out)
