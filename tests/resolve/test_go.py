"""The hash of Go modules, asked of nix2container's own default.nix."""

from __future__ import annotations

import json
import shutil

import pytest
from apertus_image.build.maker import locked_source
from apertus_image.errors import UserError
from apertus_image.resolve import go
from apertus_image.store.store import Store
from support import images

pytestmark = [pytest.mark.nix,
              pytest.mark.skipif(not shutil.which("nix-instantiate"), reason="not run: no Nix")]
LIBRARY = images.PROJECT / "nix/toolchain/lib.nix"
HASH = f"sha256-{'A' * 43}="


def resolve(source):
    return go.resolve(source, LIBRARY, Store().nix_args())


def test_name_and_hash_are_those_of_its_module(tmp_path):
    (tmp_path / "default.nix").write_text(f'''
      {{ pkgs ? throw "no nixpkgs here" }}: let l = pkgs.lib // builtins; in {{
        nix2container-bin = pkgs.buildGoModule {{
          pname = "n2c"; version = l.concatStringsSep "." [ "2" "1" ];
          vendorHash = "{HASH}"; src = throw "not looked at"; doCheck = true;
        }};
        skopeo = pkgs.skopeo.override {{ }};
      }}''')
    assert resolve(tmp_path) == {
        "format": 1, "kind": "go",
        "nix2container": {"name": "n2c-2.1-go-modules", "vendorHash": HASH}}


def test_a_source_without_one(tmp_path):
    (tmp_path / "default.nix").write_text("{ pkgs }: { }")
    with pytest.raises(UserError, match="no hash of its Go modules") as error:
        resolve(tmp_path)
    assert "nix2container-bin" in str(error.value)


def test_the_lock_is_of_the_pinned_source():
    path, _ = locked_source(images.PROJECT)
    if not Store().valid([path]):
        pytest.skip("not run: nix2container's source is not here")
    lock = json.loads((images.PROJECT / "nix/pins/go.json").read_text())
    assert resolve(Store().physical(path)) == lock
