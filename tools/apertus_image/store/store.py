"""One Nix store, with or without a daemon, at its usual place or below a directory."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["Store"]

BATCH = 500
DENIED = re.compile("Permission denied|Operation not permitted")


class Store:
    """A Nix store.

    Args:
        root: directory that the store lies below (`root/nix/store`), for a user who has
            no /nix; store paths still say /nix/store (trap 11). None for /nix itself.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root

    def physical(self, path: str) -> Path:
        """Where the files of a store path lie on this machine."""
        return Path(f"{self.root}{path}") if self.root else Path(path)

    def settings(self) -> dict[str, str]:
        """Nix settings of every call: the sandbox holds nothing of the host (trap 6)."""
        settings = {
            "extra-experimental-features": "nix-command flakes",
            "sandbox": "true",
            "sandbox-paths": "",
            "sandbox-fallback": "false",
            "max-jobs": "auto",
        }
        if os.geteuid() == 0 and not Path("/nix/var/nix/daemon-socket/socket").exists():
            settings["build-users-group"] = ""
        # Nothing of this project is in the public cache, so it is not waited for.
        settings["substituters"] = os.environ.get("APERTUS_SUBSTITUTERS", "")
        return settings

    def nix_args(self) -> list[str]:
        """The settings and the store as arguments of any Nix command."""
        arguments = [item for pair in self.settings().items() for item in ("--option", *pair)]
        return arguments + (["--store", str(self.root)] if self.root else [])

    def environment(self, project: Path) -> dict[str, str]:
        """Variables that let Nix read a clone which another user owns (trap 10)."""
        if project.stat().st_uid == os.geteuid():
            return {}
        count = int(os.environ.get("GIT_CONFIG_COUNT", "0"))
        return {
            "GIT_CONFIG_COUNT": str(count + 1),
            f"GIT_CONFIG_KEY_{count}": "safe.directory",
            f"GIT_CONFIG_VALUE_{count}": str(project),
        }

    def valid(self, paths: Iterable[str]) -> set[str]:
        """Those of the paths that the store holds; their contents are not read."""
        paths = list(dict.fromkeys(paths))
        missing: set[str] = set()
        for start in range(0, len(paths), BATCH):
            output = self._run(
                "nix-store", "--check-validity", "--print-invalid", *paths[start : start + BATCH]
            )
            missing.update(output.split())
        return set(paths) - missing

    def add_file(self, file: Path) -> str:
        """Add a file under its own name as a flat fixed output; give its path."""
        return self._run("nix-store", "--add-fixed", "sha256", str(file)).strip()

    def add_tree(self, folder: Path) -> str:
        """Add a folder under its own name as a recursive fixed output; give its path."""
        return self._run("nix-store", "--add-fixed", "--recursive", "sha256", str(folder)).strip()

    def substitute(self, path: str) -> bool:
        """Take a path from the Nix caches of APERTUS_SUBSTITUTERS; whether it is there then.

        A fixed output needs no signature: Nix checks what comes against the path itself.
        """
        if not self.settings()["substituters"]:
            return False
        command = ["nix-store", *self.nix_args(), "--realise", path]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.returncode == 0 and self.valid([path]) == {path}

    def _run(self, *command: str) -> str:
        try:
            result = subprocess.run(
                [command[0], *self.nix_args(), *command[1:]], capture_output=True, text=True
            )
        except FileNotFoundError as error:
            raise UserError("Nix is not installed", next_step="tools/build --setup") from error
        if result.returncode:
            said = result.stderr.strip()
            raise UserError(
                "Nix refused", where=" ".join(command[:2]),
                got=said[-2000:] or f"exit code {result.returncode}",
                # Trap 11: a user without a daemon on a /nix that root owns.
                next_step="keep a store of your own: --store DIR, or APERTUS_STORE"
                if not self.root and DENIED.search(said) else "see docs/recovery.md",
            )
        return result.stdout
