"""One CUDA toolkit (trap 1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.resolve.cuda import toolkit_version

LOCK = json.loads((Path(__file__).parents[2] / "nix/pins/wheels.json").read_text())


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
