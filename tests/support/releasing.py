"""tools/release as tests call it: a site below one folder, and what was published there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.remains import Places

needs_programs = pytest.mark.skipif(
    not (shutil.which("nix") and shutil.which("docker-registry")),
    reason="not run: Nix or docker-registry is not here")

PROFILE = """\
image: {image}
scratch: {at}/scratch
publish: {{folder: {at}/published, readable: group}}
registry: {{serve: {at}/registry, repository: team/smoke}}
"""


def profile(at: Path, more: str = "", image: str = "smoke-image") -> Path:
    """Write the profile of a site whose folders are all below `at`; `more` is added to it."""
    at.mkdir(exist_ok=True)
    file = at / "site.yaml"
    file.write_text(PROFILE.format(at=at, image=image) + more)
    return file


def command(clone: Path, file: Path, *arguments: str) -> list[str]:
    """A clone's own tools/release, with a profile."""
    return [str(clone / "tools/release"), "--profile", str(file), "--maker", "emitter", *arguments]


def surroundings(at: Path) -> dict[str, str]:
    """The variables of a site: interrupted uploads are noted below it."""
    return os.environ | {"XDG_STATE_HOME": str(at / "state")}


def places(at: Path) -> Places:
    """The folders of that profile."""
    return Places(at / "published", at / "scratch", at / "registry", at / "state")


def release(clone: Path, at: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a release of the smoke image at a site to its end."""
    return subprocess.run(command(clone, profile(at), *arguments), capture_output=True, text=True,
                          env=surroundings(at))


def published(at: Path) -> dict[str, bytes]:
    """What is published, without what says when and where it was made."""
    return {path.name: path.read_bytes() for path in sorted((at / "published").rglob("*"))
            if path.is_file() and not path.name.endswith(".attestation.json")}
