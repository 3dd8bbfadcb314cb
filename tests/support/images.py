"""Images of this project, built, and what tests do with them."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from apertus_image.build.maker import Maker, choose
from apertus_image.build.run import build
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.oci.layer import stream
from apertus_image.store.store import Store

PROJECT = Path(__file__).parents[2]
STORE = Store()


def maker(name: str) -> Maker:
    """A maker by name; skips where it cannot be had."""
    if not shutil.which("nix"):
        pytest.skip("not run: Nix is not here")
    try:
        return choose(PROJECT, STORE, name, answers=lambda url: False)
    except UserError:
        pytest.skip(f"not run: {name}'s source is not here")


@functools.cache
def built(attribute: str, by: str = "emitter", project: Path = PROJECT) -> Path:
    """The path of an output, built now if it has to be."""
    return build(project, attribute, STORE, maker(by), link=None)


def nix(*arguments: str | Path, by: str = "emitter", **variables: str):
    """A `nix` command on this project's settings."""
    return subprocess.run(["nix", *STORE.nix_args(), *map(str, arguments), *maker(by).arguments],
                          capture_output=True, text=True, env=os.environ | variables)


@functools.cache
def full_image_is_here(machine: str = "x86_64") -> bool:
    """Whether the full image has been built before, so that tests of it cost little."""
    for by in ("emitter", "nix2container"):
        if by == "nix2container":
            try:
                choose(PROJECT, STORE, by, answers=lambda url: False)
            except UserError:
                continue
        result = nix("path-info", f"{PROJECT}#apertus-image-{machine}", by=by)
        if result.returncode == 0:
            return True
    return False


def derivations(attribute: str, by: str) -> list[str]:
    """The derivations of an output's build that are not fixed-output.

    Left out are those whose outputs nothing keeps (the Go that built nix2container).
    """
    result = nix("path-info", "--derivation", f"{PROJECT}#{attribute}", by=by)
    assert result.returncode == 0, result.stderr
    closure = subprocess.run(["nix-store", "-qR", result.stdout.strip()], check=True,
                             capture_output=True, text=True).stdout.split()
    paths = [path for path in closure if path.endswith(".drv")]
    shown = nix("show-derivation", *paths).stdout
    made = {path: [output["path"] for output in each["outputs"].values()]
            for path, each in json.loads(shown).items()
            if not any("hash" in output for output in each["outputs"].values())}
    there = STORE.valid(path for paths in made.values() for path in paths)
    return [path for path, outputs in made.items() if there.issuperset(outputs)]


def unpack(image: Path, root: Path) -> Image:
    """Unpack an image's layers, lowest first, as a runtime would."""
    root.mkdir(parents=True, exist_ok=True)
    loaded = Image.load(image)
    for layer in loaded.layers:
        tar = subprocess.Popen(
            ["tar", "-x", "-C", root, "--absolute-names", "--transform", "s,^/,,S", "--overwrite",
             "--delay-directory-restore", "--keep-directory-symlink"],
            stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for chunk in stream(layer.paths):
            tar.stdin.write(chunk)
        tar.stdin.close()
        assert tar.wait() == 0
    return loaded


CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000


def _with_proc(root: Path) -> None:
    """Mount /proc in the image's tree, for this process and its children alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    for failed in (
        libc.unshare(CLONE_NEWNS),
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None),
        libc.mount(b"proc", os.fsencode(root / "proc"), b"proc", 0, None),
    ):
        if failed:
            raise OSError(ctypes.get_errno(), "no /proc for the test")


def run_inside(root: Path, image: Image, *command: str, **variables: str):
    """Run a command in a chroot into an image's tree, with the image's Env and a /proc."""
    if os.geteuid() != 0:
        pytest.skip("not run: chroot needs root")
    settings = [*image.config["Env"], "HOME=/root",
                *(f"{name}={value}" for name, value in variables.items())]
    return subprocess.run(
        ["chroot", str(root), "/usr/bin/env", "-i", *settings, *command],
        capture_output=True, text=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        preexec_fn=lambda: _with_proc(root))


def digests(image: Path) -> Iterable[str]:
    """The layers' digests."""
    return [layer.digest for layer in Image.load(image).layers]
