"""What replacing a package in an image takes: copying Python files, or building layers again."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from apertus_image.audit.installed import BINARY, PURE, Installed
from apertus_image.audit.wanted import GIT, INDEX, Wanted
from apertus_image.errors import UserError
from apertus_image.resolve.platform import PYTHON, best_wheel

__all__ = ["CUDA", "UNKNOWN", "compiled_by", "is_cuda", "kind"]

CUDA, UNKNOWN = "CUDA", "unknown"
# Whatever their wheels' tags say, these fit one another in one version only.
STACK = re.compile(r"torch|torch(vision|audio|codec|ao)|triton|vllm|flashinfer-.*|nvidia-.*|cuda-.*"
                   r"|cupy-.*|nccl4py|xformers|flash-attn(-.*)?|transformer-engine(-.*)?"
                   r"|deep-ep|deep-gemm|tilelang|xgrammar")
# Whoever builds with these has compiled parts.
COMPILERS = {"cffi", "cmake", "cython", "maturin", "meson-python", "nanobind", "ninja", "numpy",
             "pybind11", "scikit-build", "scikit-build-core", "setuptools-rust", "torch"}


def is_cuda(name: str) -> bool:
    """Whether a package belongs to PyTorch, CUDA, vLLM or what is built against them."""
    return bool(STACK.fullmatch(name))


def kind(wanted: Wanted, image: Installed) -> str:
    """What a package that is wanted is: `pure`, `binary`, `CUDA`, or `unknown` if nothing says."""
    if is_cuda(wanted.name):
        return CUDA
    if wanted.source == GIT or not wanted.files:
        return UNKNOWN
    files = list(wanted.files)
    with suppress(UserError, InvalidWheelFilename):
        if wanted.source == INDEX and image.markers()["python_version"] == "{}.{}".format(*PYTHON):
            files = [best_wheel(files, image.machine.name)]
        tags = [tag for file in files for tag in parse_wheel_filename(file)[3]]
        return PURE if all(tag.platform == "any" for tag in tags) else BINARY
    return BINARY  # none of its wheels fits, so it would have to be compiled


def compiled_by(folder: Path) -> str:
    """Why a folder's build seems to compile something; empty if nothing says so."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        data = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        for text in data.get("build-system", {}).get("requires", []):
            with suppress(InvalidRequirement):
                name = canonicalize_name(Requirement(text).name)
                if name in COMPILERS:
                    return f"its build asks for {name}"
    with suppress(OSError):
        text = (folder / "setup.py").read_text(encoding="utf-8", errors="replace")
        if re.search(r"\bext_modules\b|Extension\(", text):
            return "its setup.py has extension modules"
    return ""
