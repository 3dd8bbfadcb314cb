"""Which Debian version is the earlier; dpkg is the referee."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import pytest
from apertus_image.audit.debversion import earlier

VERSIONS = ["1.0", "1.0~rc1", "1.0~", "1.0-1", "1.0-1+deb13u1", "1.0-1~deb13u3", "2:1", "1:9",
            "1.10", "1.9", "1.0+b1", "1.0a", "0", "2.41-12", "1.0-1+b10", "1.00", "1.0-0",
            "1.0-1-1"]


@pytest.mark.skipif(not shutil.which("dpkg"), reason="not run: dpkg is not here")
def test_as_dpkg_compares_them():
    for one, other in itertools.product(VERSIONS, VERSIONS):
        said = subprocess.run(["dpkg", "--compare-versions", one, "lt", other]).returncode == 0
        assert earlier(one, other) == said, (one, other)
