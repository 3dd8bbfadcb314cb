"""Trees of images with a Python environment, and checkouts that want one, for tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from apertus_image.audit.installed import Installed, of_trees
from apertus_image.tree import manifest

SITE = "opt/apertus/lib/python3.13/site-packages"
STATUS = """\
Package: libc6
Version: 2.41-12
Architecture: {debian}

Package: python3.13-minimal
Version: 3.13.5-2+deb13u5
Architecture: {debian}
"""
PURE, BINARY = "py3-none-any", "cp313-cp313-manylinux_2_28_x86_64"
# name -> version, tag, Requires-Dist
PACKAGES = {
    "idna": ("3.18", PURE, ()),
    "click": ("8.4.2", PURE, ()),
    "msgpack": ("1.2.1", BINARY, ()),
    "torch": ("2.11.0", BINARY, ("nvidia-cuda-runtime==13.0.96",)),
    "nvidia-cuda-runtime": ("13.0.96", "py3-none-manylinux_2_28_x86_64", ()),
    "vllm": ("0.25.1", BINARY, ("idna>=3.10", "click<9; extra == 'shell'", "torch==2.11.0")),
}


def tree(folder: Path, debian: str = "amd64", packages: dict | None = None,
         application: Path | None = None) -> Path:
    """An image's tree."""
    (folder / SITE).mkdir(parents=True)
    (folder / "opt/apertus/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.13\n")
    (folder / "var/lib/dpkg").mkdir(parents=True)
    (folder / "var/lib/dpkg/status").write_text(STATUS.format(debian=debian))
    for name, (version, tag, requires) in (PACKAGES if packages is None else packages).items():
        info = folder / SITE / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            + "".join(f"Requires-Dist: {each}\n" for each in requires))
        (info / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(tag == PURE).lower()}\nTag: {tag}\n")
    if application:
        code = folder / "code"
        shutil.copytree(application, code / "opt/app", symlinks=True,
                        ignore=shutil.ignore_patterns(".git"))
        manifest.write(manifest.scan(code, "source"),
                       folder / "usr/share/apertus/manifests/application-source")
    return folder


def installed(folder: Path, **more) -> Installed:
    return of_trees([tree(folder, **more)])


def checkout(folder: Path, project: str = "", lock: str | None = None, **files: str) -> Path:
    """A checkout: the lines of [project] beside its name, uv.lock's packages, more files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "app"\nversion = "1"\n{project}\n')
    if lock is not None:
        (folder / "uv.lock").write_text(
            f'version = 1\nrevision = 3\nrequires-python = ">=3.12"\n{lock}')
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def entry(name: str, version: str = "1.0", tags: tuple[str, ...] = (PURE,), **fields: object
          ) -> str:
    """A package of a lock, from an index, with wheels of these tags."""
    wheels = [{"url": f"https://files.example/{name.replace('-', '_')}-{version}-{tag}.whl"}
              for tag in tags]
    return _package({"name": name, "version": version, "wheels": wheels,
                     "source": {"registry": "https://index.example/simple"}} | fields)


def root(*dependencies: str | dict, extras: dict | None = None, groups: dict | None = None,
         requires: list[dict] | None = None) -> str:
    """The project's own package of a lock."""
    def listed(names):
        return [{"name": each} if isinstance(each, str) else each for each in names]

    fields = {"name": "app", "version": "1", "source": {"virtual": "."},
              "dependencies": listed(dependencies)}
    if extras:
        fields["optional-dependencies"] = {key: listed(each) for key, each in extras.items()}
    if groups:
        fields["dev-dependencies"] = {key: listed(each) for key, each in groups.items()}
    if requires:
        fields["metadata"] = {"requires-dist": requires}
    return _package(fields)


def _package(fields: dict) -> str:
    return "\n[[package]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in
                                       fields.items())


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
