"""Debian locks, resolved by apt itself in a state directory of its own.

Only the main suite of a point release is looked at: its packages stay on the mirrors
until the next one, and the lock says which one it was.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.pins import lockfile, requirements

__all__ = ["ARCHITECTURES", "SUITE", "WORLDS", "Apt", "resolve"]

SUITE = "trixie"
ARCHITECTURES = ("amd64", "arm64")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Lock -> whether the dependencies of what is asked for are wanted too.
WORLDS = {"userland": True, "toolchain": True, "toolchain-go": True, "bootstrap": False}

# What the build world's packages name but its programs do not use: package set-up.
UNUSED = {"debconf", "dpkg", "base-files", "debianutils", "netbase",
          "media-types", "tzdata", "mawk", "tar", "openssl", "libc-bin"}


class Apt:
    """apt with its own lists, cache and sources, for one architecture.

    Args:
        architecture: Debian's name, `amd64` or `arm64`.
        mirrors: tried in order by apt for the suite's lists.
        folder: where the state lies; a temporary directory of the caller's.

    Raises:
        UserError: no mirror answers, or the suite is not a point release's main suite.
    """

    def __init__(self, architecture: str, mirrors: list[str], folder: Path) -> None:
        self.architecture = architecture
        self.folder = folder
        for name in ("state/lists/partial", "cache/archives/partial", "etc"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._update(mirrors)

    def _options(self) -> list[str]:
        settings = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::sourcelist": self.folder / "etc/sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferencesparts": "-",
            "APT::Architecture": self.architecture,
            "APT::Architectures": self.architecture,
            "APT::Install-Recommends": "false",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
        }
        return [item for key, value in settings.items() for item in ("-o", f"{key}={value}")]

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command[0], *self._options(), *command[1:]], capture_output=True, text=True
        )

    def _update(self, mirrors: list[str]) -> None:
        failures = []
        for mirror in mirrors:
            source = f"deb [signed-by={KEYRING}] {mirror} {SUITE} main\n"
            (self.folder / "etc/sources.list").write_text(source)
            result = self._run("apt-get", "update", "-q", "--error-on=any")
            if result.returncode == 0:
                return
            failures.append(f"{mirror}: {(result.stderr.strip().splitlines() or ['no word'])[-1]}")
        raise UserError(
            f"no Debian mirror gives the lists of {SUITE}",
            expected=f"one of {len(mirrors)} mirrors to answer",
            got="\n            ".join(failures) or "no mirror configured",
            next_step="set APERTUS_DEBIAN_MIRRORS to a mirror that answers",
        )

    def release(self) -> tuple[str, str]:
        """Version and date (as the Release file says them) of the point release."""
        lists = [*(self.folder / "state/lists").glob(f"*_dists_{SUITE}_InRelease")]
        text = lists[0].read_text() if lists else ""
        version = re.search(r"(?m)^Version: (\d+\.\d+)$", text)
        date = re.search(r"(?m)^Date: (.+)$", text)
        if not version or not date:
            raise UserError(
                "the suite is no point release's main suite",
                where=SUITE, expected="a Release file with Version N.M and a Date",
                got=text[:200] or "no Release file", next_step="lock against a stable suite",
            )
        return version[1], date[1]

    def closure(self, names: Iterable[str], dependencies: bool) -> list[str]:
        """`name=version` of everything apt would install for these names.

        Raises:
            UserError: apt cannot satisfy them, in apt's words.
        """
        names = list(names)
        if dependencies:
            result = self._run("apt-get", "install", "--simulate", "-qq", *names)
            found = re.findall(r"(?m)^Inst (\S+) \((\S+) ", result.stdout)
        else:
            result = self._run("apt-cache", "show", "--no-all-versions", *names)
            found = [(p["Package"], p["Version"]) for p in _paragraphs(result.stdout)]
        if result.returncode or not found:
            raise UserError(
                "apt cannot resolve the packages asked for",
                where=f"{SUITE}, {self.architecture}: {' '.join(names)}",
                got=result.stderr.strip(), next_step="mend the .packages file",
            )
        return [f"{name.split(':')[0]}={version}" for name, version in found]

    def entries(self, packages: list[str]) -> list[dict[str, Any]]:
        """The lock's entries for `name=version` packages, sorted by name."""
        result = self._run("apt-cache", "show", *packages)
        entries = {}
        for field in _paragraphs(result.stdout):
            entries[field["Package"]] = {
                "name": field["Package"],
                "version": field["Version"],
                "architecture": field["Architecture"],
                "path": field["Filename"],
                "sha256": field["SHA256"],
                "size": int(field["Size"]),
            }
        if missing := {p.split("=")[0] for p in packages} - set(entries):
            raise UserError("apt knows no file for packages it chose", got=sorted(missing))
        return [entries[name] for name in sorted(entries)]


def _paragraphs(text: str) -> Iterator[dict[str, str]]:
    for paragraph in text.strip().split("\n\n"):
        fields = re.findall(r"(?m)^([A-Za-z0-9-]+): (.*)$", paragraph)
        if fields:
            yield dict(fields)


def resolve(kind: str, pins: Path, mirrors: list[str]) -> dict[str, Any]:
    """Resolve one Debian lock for both architectures.

    Args:
        kind: a key of WORLDS; `KIND.packages` beside the locks says what is asked for.
        pins: folder of the locks.
        mirrors: Debian mirrors, tried in order.
    """
    file = pins / f"{kind}.packages"
    wanted = requirements.lines(file)
    lock: dict[str, Any] = {
        "format": lockfile.FORMAT,
        "kind": "debian",
        "suite": SUITE,
        "requirements": {file.name: requirements.sha256(file)},
    }
    sections = {}
    for architecture in ARCHITECTURES:
        with tempfile.TemporaryDirectory(prefix="apertus-apt-") as folder:
            apt = Apt(architecture, mirrors, Path(folder))
            lock["release"], lock["date"] = apt.release()
            packages = apt.closure(wanted, WORLDS[kind])
            if kind.startswith("toolchain"):
                packages = [p for p in packages if p.split("=")[0] not in UNUSED]
            sections[architecture] = apt.entries(packages)
    return lock | sections
