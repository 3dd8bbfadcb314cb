"""Which maker is taken, and that the user is told why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from apertus_image.build.maker import choose, folder_url, locked_source
from apertus_image.errors import UserError
from support import images


class Store:
    """A store that holds the given paths."""

    def __init__(self, *paths):
        self.paths = set(paths)

    def valid(self, paths):
        return self.paths & set(paths)


def never(url):
    pytest.fail("the network was asked")


def test_the_source_in_the_store_is_taken_without_asking():
    path, _ = locked_source(images.PROJECT)
    maker = choose(images.PROJECT, Store(path), answers=never)
    assert maker.name == "nix2container" and not maker.arguments and "store" in maker.why


def test_github_is_asked_for_the_locked_repository():
    asked = []
    maker = choose(images.PROJECT, Store(), answers=lambda url: asked.append(url) or True)
    assert maker.name == "nix2container" and asked == ["https://github.com/nlewo/nix2container"]


def test_else_the_emitter_by_an_absolute_path():
    maker = choose(images.PROJECT, Store(), answers=lambda url: False)
    assert maker.name == "emitter" and "GitHub does not answer" in maker.why
    assert maker.arguments[:3] == ("--override-input", "nix2container",
                                   f"path:{images.PROJECT}/nix/emitter")


def test_what_has_a_meaning_in_a_url_is_quoted():
    """That Nix reads it so is tried end to end, in the self-contained folder's test."""
    assert folder_url(Path("/a b%20?#é")) == "path:/a%20b%2520%3F%23%C3%A9"
    assert folder_url(Path("/a+b/b-c.d_e")) == "path:/a+b/b-c.d_e"


def test_asked_for_by_name():
    assert choose(images.PROJECT, Store(), "emitter", answers=never).name == "emitter"
    with pytest.raises(UserError, match="cannot be had"):
        choose(images.PROJECT, Store(), "nix2container", answers=lambda url: False)


def test_a_lock_that_does_not_pin_it(tmp_path):
    lock = json.loads((images.PROJECT / "flake.lock").read_text())
    del lock["nodes"]["nix2container"]["locked"]
    (tmp_path / "flake.lock").write_text(json.dumps(lock))
    with pytest.raises(UserError, match="does not pin"):
        choose(tmp_path, Store(), answers=never)


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
def test_the_locked_path_is_what_nix_looks_for():
    path, _ = locked_source(images.PROJECT)
    if not images.STORE.valid([path]):
        pytest.skip("not run: nix2container's source is not here")
    go = (images.STORE.physical(path) / "go.mod").read_text()
    assert go.startswith("module github.com/nlewo/nix2container")
    # Upstream's own hash of its modules is the one that is pinned here.
    pinned = json.loads((images.PROJECT / "nix/pins/go.json").read_text())
    assert pinned["nix2container"]["vendorHash"] in (
        images.STORE.physical(path) / "default.nix").read_text()
