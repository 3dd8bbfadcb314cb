"""Builder: one wheel as a fixed-output path, where a build may use the network.

    python3 -m apertus_image.fetch.builder SPEC OUT

Spec: {"kind": "wheel", "name", "file", "sha256", "size", "certificates": PEM file}.
Of the machine's configuration only APERTUS_* variables arrive in a build (trap 7); with
no index named, it fails at once with the command that brings everything.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import requests

from apertus_image.errors import UserError, run_builder
from apertus_image.fetch import index
from apertus_image.fetch.download import Pin, Unavailable, download
from apertus_image.fetch.web import Failed

__all__ = ["build"]

NEXT = "run: tools/prefetch"


def build(spec: dict, out: Path) -> None:
    """Write the wheel to `out`.

    Raises:
        UserError: no index is named, or none has the file.
    """
    indexes = [url.rstrip("/") for url in os.environ.get("APERTUS_PYPI_INDEX", "").split()]
    pin = Pin(spec["file"], spec["sha256"], spec["size"])
    if not indexes:
        raise UserError(
            f"{pin.file} is not in the store, and this build was told no index",
            expected=f"sha256 {pin.sha256}, {pin.size} bytes", next_step=NEXT,
        )
    bundle = os.environ.get("APERTUS_CA_BUNDLE", "")
    with requests.Session() as session, tempfile.TemporaryDirectory() as scratch:
        # The machine's own bundle may lie where the sandbox has nothing.
        session.verify = bundle if Path(bundle).is_file() else spec["certificates"]
        try:
            file = download(session, pin, _places(session, indexes, spec), Path(scratch))
        except Unavailable as failure:
            raise UserError(failure.what, where=failure.where, expected=failure.expected,
                            got=failure.got, next_step=NEXT) from failure
        shutil.copyfile(file, out)


def _places(session: requests.Session, indexes: list[str], spec: dict) -> Iterator[str | Failed]:
    for url in indexes:
        folder = Path(url.removeprefix("file://"))
        if folder.is_dir():
            yield str(folder / spec["file"])
        else:
            yield from index.find(session, [f"{url}/{spec['name']}/"], spec["file"],
                                  spec["sha256"])


if __name__ == "__main__":
    run_builder(build)
