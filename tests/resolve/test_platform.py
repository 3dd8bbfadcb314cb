"""Which wheels are taken and which refused, before anything is fetched (cases 6, 40)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.fetch.plan import inputs_of
from apertus_image.resolve.compare import differences
from apertus_image.resolve.cuda import toolkit_version
from apertus_image.resolve.gone import gone, replaced
from apertus_image.resolve.platform import best_wheel, glibc_problem

LOCK = json.loads((Path(__file__).parents[2] / "nix/pins/wheels.json").read_text())


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


def test_mixed_cuda_is_refused():  # trap 1
    pins = [{"name": "nvidia-cuda-runtime", "version": "13.0.96"},
            {"name": "nvidia-cuda-nvcc", "version": "13.2.86"},
            {"name": "nvidia-cublas", "version": "13.5.1"}]
    with pytest.raises(UserError) as error:
        toolkit_version(pins)
    assert "nvidia-cuda-nvcc 13.2.86" in str(error.value) and "13.0" in str(error.value)
    assert toolkit_version(pins[:1]) == "13.0"
    assert toolkit_version([]) is None


def test_the_lock_has_one_cuda_and_records_the_downgrade():  # trap 1
    for machine in ("x86_64", "aarch64"):
        assert toolkit_version(LOCK[machine]) == LOCK["cuda"] == "13.0"
        assert {p["name"]: p["version"] for p in LOCK[machine]}["cuda-tile"] == "1.1.0"


def test_a_comparison_names_what_moved():
    old = {"date": "1", "x": [{"name": "a", "version": "1", "sha256": "a" * 64},
                              {"name": "b", "version": "1", "sha256": "b" * 64},
                              {"name": "c", "version": "1", "sha256": "c" * 64}]}
    new = {"date": "2", "x": [{"name": "a", "version": "2", "sha256": "d" * 64},
                              {"name": "c", "version": "1", "sha256": "e" * 64},
                              {"name": "n", "version": "1", "sha256": "f" * 64}]}
    assert differences(old, new) == [
        "date: 1 -> 2", "x:   a 1 -> 2", "x: - b 1",
        "x: ! c 1: other bytes, sha256 cccccccccccc -> eeeeeeeeeeee", "x: + n 1"]
    assert differences(old, old) == []


class Session:
    """Answers HEAD for the packages that a mirror still has."""

    def __init__(self, *present):
        self.present = present

    def head(self, url, **_):
        class Reply:
            ok = any(name in url for name in self.present)

        return Reply


def test_gone_packages_alone_are_pinned_anew():
    def pin(name, version):
        return {"name": name, "version": version, "architecture": "amd64",
                "path": f"pool/main/{name}_{version}.deb", "sha256": "0" * 64, "size": 5}

    lock = {"date": "Sat, 21 Nov 2026 09:15:44 UTC", "amd64": [pin("a", "1"), pin("b", "1")]}
    lost = gone(Session("b_1.deb"), inputs_of(lock, "amd64"), ["http://127.0.0.1/debian"], [])
    assert lost == {"a"}
    fresh = {"amd64": [pin("a", "2"), pin("b", "2")]}
    new = replaced(lock, {"amd64": lost}, lambda: fresh)
    assert differences(lock, new) == ["amd64:   a 1 -> 2"]
    assert replaced(lock, {"amd64": set()}, lambda: pytest.fail("resolved")) is lock
