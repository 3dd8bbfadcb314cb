"""Builder: the content identity, a hash over everything the image holds.

Compile caches must not outlive the image they were made by (trap 17), so the image
carries a name for its own content. It is derived from the manifests, so it knows no
commit, clock or store path: one content, one identity, whoever built it.

    python3 -m apertus_image.image.identity SPEC OUT MANIFEST

Spec: {"manifests": [store paths, in layer order]}.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from apertus_image.errors import run_builder
from apertus_image.tree import manifest

__all__ = ["CONTENT_ID", "build", "content_id"]

CONTENT_ID = "usr/share/apertus/content-id"


def content_id(manifests: list[Path]) -> str:
    """The SHA-256 (hex) over the manifests' own SHA-256, in layer order."""
    digest = hashlib.sha256()
    for file in manifests:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def build(spec: dict, out: Path, manifest_file: Path) -> None:
    """Write the identity file into a tree of its own, and that tree's manifest."""
    file = out / CONTENT_ID
    file.parent.mkdir(parents=True)
    file.write_text(content_id([Path(name) for name in spec["manifests"]]) + "\n")
    manifest.write(manifest.scan(out, "generated"), manifest_file)


if __name__ == "__main__":
    run_builder(build)
