"""A registry for each test."""

from __future__ import annotations

import pytest
from fakes.registry import serve
from support.pushing import Bench


@pytest.fixture
def bench(tmp_path):
    with serve() as registry:
        yield Bench(registry, {"HOME": str(tmp_path / "nobody")})
