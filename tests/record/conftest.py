"""One release for all tests of the room; no test changes it."""

from __future__ import annotations

import pytest
from support import releases


@pytest.fixture(scope="session")
def release(tmp_path_factory) -> releases.Release:
    return releases.release(tmp_path_factory.mktemp("release"))
