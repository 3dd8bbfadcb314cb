"""A small image for tests of who can run in it."""

from __future__ import annotations

import pytest
from apertus_image.audit.installed import Installed
from support.pythons import installed


@pytest.fixture
def image(tmp_path) -> Installed:
    return installed(tmp_path / "tree")
