"""One CUDA toolkit: every part of it of one major.minor (trap 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apertus_image.errors import UserError

__all__ = ["TOOLKIT", "toolkit_version"]

# The parts whose versions are the toolkit's own; cuBLAS, cuFFT and the like count otherwise.
TOOLKIT = (
    "nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-cupti", "nvidia-cuda-nvcc",
    "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-nvjitlink", "nvidia-nvtx", "nvidia-nvvm",
)


def toolkit_version(pins: Iterable[Mapping[str, object]]) -> str | None:
    """The toolkit's `major.minor`, None where the pins hold no part of it.

    Raises:
        UserError: its parts are of several; a compiler and headers that differ stop
            every file that includes CCCL.
    """
    found: dict[str, list[str]] = {}
    for pin in pins:
        if pin["name"] in TOOLKIT:
            version = ".".join(str(pin["version"]).split(".")[:2])
            found.setdefault(version, []).append(f"{pin['name']} {pin['version']}")
    if len(found) > 1:
        raise UserError(
            "the CUDA toolkit's parts are of different versions",
            expected="one major.minor for all of them",
            got="; ".join(f"{version}: {', '.join(names)}" for version, names in
                          sorted(found.items())),
            next_step="bound the newer ones in nix/pins/requirements.in, then tools/lock wheels",
        )
    return next(iter(found), None)
