"""A small signed Debian archive in a folder, for apt's own resolver."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

DATE = "Sat, 21 Nov 2026 09:15:44 UTC"
MAIN = {"Origin": "Debian", "Label": "Debian", "Suite": "stable", "Version": "13.8",
        "Codename": "trixie"}
MISSING = [program for program in ("apt-get", "gpg", "gpg-agent") if not shutil.which(program)]


class Key:
    """A signing key of its own; its folder has a short name, as gpg's sockets want."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="apt-key-")
        self.ring = Path(self._home.name, "ring.gpg")
        self._gpg("--passphrase", "", "--quick-gen-key", "test", "ed25519", "sign", "never")
        self.ring.write_bytes(self._gpg("--export"))

    def sign(self, text: str) -> bytes:
        return self._gpg("--clearsign", stdin=text.encode())

    def close(self) -> None:
        subprocess.run(["gpgconf", "--homedir", self._home.name, "--kill", "gpg-agent"],
                       capture_output=True)
        self._home.cleanup()

    def _gpg(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return subprocess.run(
            ["gpg", "--homedir", self._home.name, "--batch", "--pinentry-mode", "loopback",
             *arguments], input=stdin, capture_output=True, check=True).stdout


def package(name: str, version: str = "1.0", architecture: str = "amd64", **fields: str) -> dict:
    """A paragraph of Packages. Fields are as there: Depends, Recommends and so on."""
    file = f"{name}_{version.rpartition(':')[2]}_{architecture}.deb"
    return {
        "Package": name, "Version": version, "Architecture": architecture,
        "Maintainer": "A Test <test@example.org>", "Description": "a test's",
        "Filename": f"pool/main/{name[0]}/{name}/{file}",
        "Size": str(100 + len(file)), "SHA256": hashlib.sha256(file.encode()).hexdigest(),
    } | fields


def publish(root: Path, key: Key, packages: list[dict], *, suite: str = "trixie",
            date: str = DATE, **fields: str) -> str:
    """Write the suite's lists below `root`, as a mirror has them; give the mirror's name.

    Args:
        fields: of the Release file, over those of a point release; an empty one is left out.
    """
    folder = root / "dists" / suite
    sums = []
    for architecture in ("amd64", "arm64"):
        text = "\n\n".join(
            "\n".join(f"{key}: {value}" for key, value in each.items())
            for each in packages if each["Architecture"] in (architecture, "all")) + "\n"
        name = f"main/binary-{architecture}/Packages"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        sums.append(f" {hashlib.sha256(text.encode()).hexdigest()} {len(text.encode())} {name}")
    head = MAIN | {"Date": date, "Architectures": "amd64 arm64", "Components": "main"} | fields
    release = "".join(f"{key}: {value}\n" for key, value in head.items() if value)
    (folder / "InRelease").write_bytes(key.sign(f"{release}SHA256:\n" + "\n".join(sums) + "\n"))
    return str(root)


def fill(root: Path, packages: list[dict]) -> None:
    """Put files of the right sizes where the lists say; what they hold is not looked at."""
    for each in packages:
        file = root / each["Filename"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * int(each["Size"]))
