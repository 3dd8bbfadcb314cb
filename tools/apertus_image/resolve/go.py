"""The lock of Go modules: the hash that nix2container's own default.nix checks them by."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.pins import lockfile

__all__ = ["resolve"]

# default.nix is lazy, so the functions that its Go program does not touch need not be there.
EXPRESSION = """
{ source, lib }:
(import (source + "/default.nix") {
  pkgs = {
    lib = import lib;
    buildGoModule = { pname, version, vendorHash, ... }: {
      name = "${pname}-${version}-go-modules";
      inherit vendorHash;
    };
  };
}).nix2container-bin
"""


def resolve(source: Path, library: Path, nix: list[str]) -> dict[str, Any]:
    """The lock for a source tree of nix2container.

    Args:
        source: the tree.
        library: nix/toolchain/lib.nix, nixpkgs' functions that its default.nix uses.
        nix: settings that every call of Nix gets.

    Raises:
        UserError: the tree's default.nix says no hash.
    """
    command = ["nix-instantiate", *nix, "--eval", "--strict", "--json", "-E", EXPRESSION,
               "--arg", "source", str(source), "--arg", "lib", str(library)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise UserError("nix2container's default.nix names no hash of its Go modules",
                        where=source, got=result.stderr.strip()[-2000:],
                        next_step="see whether flake.lock pins a release of nix2container")
    return {"format": lockfile.FORMAT, "kind": "go", "nix2container": json.loads(result.stdout)}
