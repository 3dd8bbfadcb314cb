"""nix2container's Go dependencies, vendored by go and checked by upstream's own hash."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.fetch.bootstrap import nar_sha256
from apertus_image.fetch.sources import ca_bundle, go_proxy
from apertus_image.pins import lockfile
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store

__all__ = ["expected_path", "vendor"]


def _pin(pins: Path) -> tuple[str, str]:
    entry = lockfile.read(pins / "go.json")["nix2container"]
    return entry["name"], base64.b64decode(entry["vendorHash"].removeprefix("sha256-")).hex()


def expected_path(pins: Path) -> str:
    """The store path that nix2container's build expects its dependencies at."""
    name, digest = _pin(pins)
    return fixed_output_path(name, digest, recursive=True)


def vendor(pins: Path, source: Path, go: Path, store: Store) -> str:
    """Run `go mod vendor` on nix2container's source; add the result to the store.

    Args:
        pins: folder of the locks.
        source: nix2container's source tree.
        go: the go program, of the pinned toolchain.

    Raises:
        UserError: go failed, or the modules are not the locked ones.
    """
    name, digest = _pin(pins)
    with tempfile.TemporaryDirectory(prefix="apertus-go-") as scratch:
        copy = Path(scratch, "source")
        shutil.copytree(source, copy)
        for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GO")},
            "HOME": scratch, "GOPATH": f"{scratch}/go", "GOTOOLCHAIN": "local",
            # What is vendored need not be kept, and a read-only cache cannot be removed.
            "GOFLAGS": "-modcacherw",
        }
        if proxy := go_proxy():
            environment["GOPROXY"] = proxy
        if bundle := ca_bundle():
            environment["SSL_CERT_FILE"] = bundle
        result = subprocess.run([str(go), "mod", "vendor"], cwd=copy, env=environment,
                                capture_output=True, text=True)
        if result.returncode:
            raise UserError("nix2container's Go modules cannot be had", where="go mod vendor",
                            got=result.stderr.strip()[-2000:],
                            next_step="set APERTUS_GOPROXY, or build with --maker emitter")
        vendored = (copy / "vendor").rename(Path(scratch, name))
        if (found := nar_sha256(vendored)) != digest:
            raise UserError("nix2container's Go modules are not the locked ones", where=name,
                            expected=digest, got=found,
                            next_step="ask another proxy (APERTUS_GOPROXY)")
        return store.add_tree(vendored)
