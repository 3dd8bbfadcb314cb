"""Which wheels are taken and which refused, before anything is fetched (cases 6, 40)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.resolve.platform import GLIBC, PYTHON, best_wheel, glibc_problem

PINS = Path(__file__).parents[2] / "nix/pins"


def test_the_best_of_several():
    files = ["p-1-py3-none-any.whl", "p-1-cp313-cp313-manylinux_2_28_x86_64.whl",
             "p-1-cp313-cp313-manylinux_2_28_aarch64.whl",
             "p-1-cp312-cp312-manylinux_2_28_x86_64.whl",
             "p-1-cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"]
    assert best_wheel(files, "x86_64") == files[1]
    assert best_wheel(files, "aarch64") == files[2]


@pytest.mark.parametrize("file", ["p-1-cp313-cp313-manylinux_2_42_aarch64.whl",
                                  "p-1-cp39-abi3-manylinux_3_0_aarch64.whl"])
def test_a_newer_glibc_is_refused_with_both_versions(file):  # case 40
    with pytest.raises(UserError) as error:
        best_wheel([file], "aarch64")
    assert "the userland has 2.41" in str(error.value) and "tag needs glibc" in str(error.value)
    assert file in str(error.value)


def test_the_userlands_own_glibc_is_not():
    assert best_wheel(["p-1-py3-none-manylinux_2_41_x86_64.whl"], "x86_64")


def test_tegra_builds_are_refused_for_server_arm():  # case 40
    assert "Tegra" in glibc_problem("p-1+l4t36-cp313-cp313-manylinux_2_28_aarch64.whl", "aarch64")
    assert glibc_problem("p-1-cp313-cp313-manylinux_2_28_aarch64.whl", "aarch64") is None


def test_no_wheel_at_all():
    with pytest.raises(UserError, match="no wheel fits"):
        best_wheel([], "x86_64")


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_glibc_and_python_are_the_pinned_userlands(architecture):  # case 40
    pins = json.loads((PINS / "userland.json").read_text())[architecture]
    versions = {pin["name"]: pin["version"] for pin in pins}
    assert re.match(r"(\d+)\.(\d+)", versions["libc6"]).groups() == tuple(map(str, GLIBC))
    assert f"python{PYTHON[0]}.{PYTHON[1]}" in versions


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_pinned_wheel_fits(machine):  # case 40
    for pin in json.loads((PINS / "wheels.json").read_text())[machine]:
        assert best_wheel([pin["file"]], machine) == pin["file"]
        assert glibc_problem(pin["file"], machine) is None
