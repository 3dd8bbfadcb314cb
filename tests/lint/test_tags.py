"""Wheels' tags against the machine and its C library."""

from __future__ import annotations

import pytest
from apertus_image.lint.tags import check_tags
from apertus_image.tree.machine import MACHINES


def findings(tmp_path, tags, machine="x86_64", glibc="2.36"):
    file = tmp_path / "WHEEL"
    file.write_text("Wheel-Version: 1.0\nGenerator: test\n"
                    + "".join(f"Tag: {tag}\n" for tag in tags))
    return list(check_tags("/site/x-1.0.dist-info/WHEEL", file, MACHINES[machine], glibc))


@pytest.mark.parametrize(("tags", "machine", "glibc"), [
    (["cp313-cp313-manylinux_2_39_x86_64"], "x86_64", "2.36"),
    (["cp313-cp313-manylinux_2_36_x86_64"], "x86_64", "2.9"),  # 9 is less than 36
    (["cp313-cp313-manylinux_2_17_aarch64"], "x86_64", "2.41"),
    (["cp313-cp313-manylinux_2_17_x86_64"], "aarch64", "2.41"),
    (["cp313-cp313-win_amd64"], "x86_64", "2.41"),
    (["cp313-cp313-linux_tegra"], "aarch64", "2.41"),
    (["py3-none-manylinux_2_39_x86_64.manylinux_2_40_x86_64"], "x86_64", "2.36"),
    (["py3-none-musllinux_1_2_x86_64"], "x86_64", "2.41"),
    (["cp313-cp313-manylinux2014_x86_64"], "x86_64", "2.16"),
    (["cp313-cp313-manylinux1_x86_64"], "x86_64", "2.4"),
    (["py3-none-manylinux2014_aarch64_tegra"], "aarch64", "2.41"),
])
def test_what_does_not_fit(tmp_path, tags, machine, glibc):  # cases 6, 40
    [found] = findings(tmp_path, tags, machine, glibc)
    assert found.check == "tags" and found.path.endswith("/WHEEL")
    for word in (tags[0].split("-")[2].split(".")[0], machine, f"glibc {glibc}"):
        assert word in found.why


@pytest.mark.parametrize(("tags", "machine", "glibc"), [
    (["py3-none-any"], "x86_64", "2.36"),
    (["cp313-cp313-manylinux_2_36_x86_64"], "x86_64", "2.36"),
    (["cp313-cp313-manylinux_2_9_x86_64"], "x86_64", "2.36"),
    (["cp313-cp313-manylinux2014_x86_64"], "x86_64", "2.36"),
    (["cp313-cp313-linux_x86_64"], "x86_64", "2.36"),
    (["cp313-cp313-manylinux_2_28_aarch64"], "aarch64", "2.41"),
    (["py3-none-manylinux2014_sbsa", "py3-none-manylinux2014_aarch64"], "aarch64", "2.41"),
    (["py3-none-linux_sbsa"], "aarch64", "2.41"),
    # One of several is enough.
    (["py3-none-manylinux_2_39_x86_64", "py3-none-manylinux_2_17_x86_64"], "x86_64", "2.36"),
    (["py3-none-manylinux_2_17_x86_64.manylinux_2_39_x86_64"], "x86_64", "2.36"),
    (["py2.py3-none-any"], "aarch64", "2.36"),
])
def test_what_fits(tmp_path, tags, machine, glibc):  # case 40
    assert findings(tmp_path, tags, machine, glibc) == []


def test_server_arm_is_for_aarch64_alone(tmp_path):  # case 40
    assert findings(tmp_path, ["py3-none-linux_sbsa"], "x86_64")


def test_a_wheel_without_a_tag_tells_nothing(tmp_path):  # case 40
    [found] = findings(tmp_path, [])
    assert found.subject == "none"
