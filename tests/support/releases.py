"""The image of case 47 (three wheels, two debs, one patch), its project as a git repository."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.debian import userland
from apertus_image.oci.image import Image
from apertus_image.oci.layer import Layer, digest
from apertus_image.oci.paths import LayerPath
from apertus_image.patch import build as overlay
from apertus_image.pins import lockfile, requirements
from apertus_image.record import pins, record, source
from apertus_image.wheel import build as environment
from support import debs, wheels
from support import patches as patched
from support.checkouts import repository

LABELS = {"org.opencontainers.image.title": "t", "org.opencontainers.image.version": "1"}
CONFIG = {"Cmd": ["/bin/sh"], "WorkingDir": "/", "Labels": LABELS}
DEP5 = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
License: GPL-2+

Files: x
License: Expat
"""
REVISION = "20d339590c3c36252514a57b0241c47bcd8a08ce"
FLAKE_LOCK = {"nodes": {"root": {"inputs": {"nix2container": "nix2container"}}, "nix2container": {
    "locked": {"rev": REVISION, "narHash": "sha256-x", "type": "github", "owner": "nlewo",
               "repo": "nix2container"}}}, "root": "root", "version": 7}


@dataclass
class Release:
    """All that a record is made of.

    Attributes:
        project: a git repository with locks and patches.
        image: of three wheels, two debs and one patch.
        trees: of the image, by what is in them.
        export: what an export would say of it.
    """

    project: Path
    image: Image
    trees: dict[str, Path]
    export: dict[str, Any]

    def record(self, project: Path | None = None, **more: Any) -> record.Record:
        folder = project or self.project
        arguments = {
            "source": source.state(folder), "pins": pins.digests(folder), "image": self.image,
            "manifests": {"oci": f"sha256:{'1' * 64}", "v2s2": f"sha256:{'2' * 64}"},
            "export": self.export, "application": None}
        return record.compose(**(arguments | more))


def release(folder: Path) -> Release:
    """Build the trees, lock what they are made of, commit the locks."""
    packages = [_deb(folder / "debs", "base-files"), _deb(folder / "debs", "base-passwd")]
    parts = [_wheel(folder / "wheels", "a-b", "License-Expression: MIT OR Apache-2.0\n"),
             _wheel(folder / "wheels", "c", "Classifier: License :: OSI Approved :: MIT License\n"),
             _wheel(folder / "wheels", "pkg", "", {"pkg/__init__.py": "", "pkg/m.py":
                                                   patched.SOURCE})]
    patch = patched.patch(folder / "patches", "one", patched.SOURCE,
                          patched.SOURCE.replace("VALUE = 1", "VALUE = 2"))
    trees = _trees(folder / "trees", packages, parts, patch)
    for tree in trees.values():
        as_stored(tree)
    layers = []
    for names in (("userland",), ("python",), ("patches", "identity")):
        paths = tuple(LayerPath(str(trees[name]), (f"^{trees[name]}", ""), ()) for name in names)
        layers.append(Layer(*digest(paths), paths, {"created_by": names[0]}))
    image = Image.make(CONFIG, layers, "amd64", "2026-07-15T00:00:00Z")
    export = {
        "schema": "apertus-image/export/1", "format": 2, "image": image.image_id,
        "layers": [each.digest for each in layers], "architecture": "amd64", "check": "full",
        "settings": {"compressor": "zstd", "level": 3, "block": 1 << 20}, "file": "mine.sqsh",
        "size": 4096, "sha256": "3" * 64}
    return Release(_project(folder / "project", packages, parts, Path(patch["meta"]).parent),
                   image, trees, export)


def as_stored(tree: Path) -> None:
    """Give a tree the modes that the Nix store would."""
    for path in [*tree.rglob("*"), tree]:
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o555 if executable else 0o444)


def _deb(folder: Path, name: str) -> dict:
    text = DEP5 if name == "base-files" else "No form, but see /usr/share/common-licenses/GPL-2.\n"
    more = [debs.file(f"usr/share/doc/{name}/copyright", text)]
    if name == "base-files":
        more.append(debs.file("usr/lib/os-release", 'ID=debian\nVERSION_ID="13"\n'))
        more += [debs.folder("etc"), debs.folder("run"), debs.folder("var/lock", 0o1777)]
    else:
        more += [debs.file("usr/share/base-passwd/passwd.master", "root:*:0:0::/root:/bin/sh\n"),
                 debs.file("usr/share/base-passwd/group.master", "root:*:0:\n")]
    version = "1:2.0+deb13u1" if name == "base-passwd" else "1.0"
    pin = debs.make(folder, name, more, version=version)
    return pin | {"version": version}


def _wheel(folder: Path, name: str, metadata: str, files: dict | None = None) -> dict:
    return wheels.make(folder, name, files or {f"{name.replace('-', '_')}.py": "x = 1\n"},
                       metadata=metadata)


def _trees(folder: Path, packages: list[dict], parts: list[dict], patch: dict) -> dict[str, Path]:
    trees = {name: folder / name for name in ("userland", "python", "patches", "identity")}

    def own(name: str) -> Path:
        return trees[name] / f"usr/share/apertus/manifests/{name}-x86_64"

    userland.build({"machine": "x86_64", "python": patched.PYTHON, "debs": packages},
                   trees["userland"], own("userland"), 1)
    environment.build(wheels.spec(*parts), trees["python"], own("python"), 1)
    overlay.build({"prefix": wheels.PREFIX, "python": patched.PYTHON, "patches": [patch],
                   "wheel": parts[2], "installed": str(trees["python"])},
                  trees["patches"], own("patches"))
    file = trees["identity"] / "usr/share/apertus/content-id"
    file.parent.mkdir(parents=True)
    file.write_text("e" * 64 + "\n")
    return trees


def _project(folder: Path, packages: list[dict], parts: list[dict], patch: Path) -> Path:
    made = folder.with_name("requirements.in")
    made.write_text("x\n")
    head = {"format": 1, "requirements": {"requirements.in": requirements.sha256(made)}}
    wheel_pins = [_pin(each, tags=["py3-none-any"], requires=[], file=each["file"])
                  for each in parts]
    deb_pins = [_pin(each, architecture=each["architecture"],
                     path=f"pool/main/b/{Path(each['path']).name}") for each in packages]
    return repository(folder, {
        "flake.lock": json.dumps(FLAKE_LOCK), ".gitignore": "*.log\n",
        "nix/pins/requirements.in": "x\n",
        "nix/pins/wheels.json": lockfile.dumps(head | {
            "kind": "wheels", "exclude_newer": "2026-07-15", "x86_64": wheel_pins,
            "aarch64": []}),
        "nix/pins/userland.json": lockfile.dumps(head | {
            "kind": "debian", "suite": "trixie", "release": "13.8",
            "date": "Sat, 21 Nov 2026 09:15:44 UTC", "amd64": deb_pins, "arm64": []}),
        **{f"nix/patches/test/one/{name}": (patch / name).read_text()
           for name in ("patch.json", "patch.diff")},
    })


def _pin(made: dict, **more: Any) -> dict[str, Any]:
    data = Path(made["path"]).read_bytes()
    return {"name": made["name"], "version": made["version"], "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(), **more}
