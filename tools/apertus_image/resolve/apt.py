"""apt's own resolver, in a state directory of its own.

Nothing of the machine's lists, installed packages, sources or preferences is looked at;
its proxies are. Only the main suite of a point release is: its packages stay on the
mirrors until the next one, and the locks say which one it was.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError

__all__ = ["ARCHITECTURES", "KEYRING", "SUITE", "Suite", "point_release"]

SUITE = "trixie"
ARCHITECTURES = ("amd64", "arm64")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Suite:
    """The suite as one mirror has it now, for both architectures.

    Its lists are fetched when something is first asked, once for any number of locks, so
    that all of them are of one state. Used as a context: its folder goes with it.

    Args:
        mirrors: tried in order until one gives the suite's lists; a URL or a folder.
        keyring: whose signatures are trusted.
    """

    def __init__(self, mirrors: list[str], keyring: Path = KEYRING) -> None:
        self._mirrors = mirrors
        self._keyring = keyring
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Suite:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder:
            self._folder.cleanup()
            self._folder = None

    def release(self) -> tuple[str, str]:
        """Version and date of the point release, as its Release file says them.

        Raises:
            UserError: no mirror answers, or this is no point release's main suite.
        """
        lists = [*(self._state() / "state/lists").glob(f"*_dists_{SUITE}_*Release")]
        return point_release(lists[0].read_text() if lists else "")

    def closure(self, architecture: str, names: Iterable[str]) -> list[str]:
        """`name=version` of everything apt would install for these names, Recommends left out.

        Raises:
            UserError: apt cannot satisfy them, in apt's words.
        """
        names = list(names)
        result = self._run(architecture, "apt-get", "install", "--simulate", "-qq", *names)
        found = re.findall(r"(?m)^Inst (\S+) \((\S+) ", result.stdout)
        if result.returncode or not found:
            raise self._unresolved(architecture, names, result.stderr)
        return [f"{name.split(':')[0]}={version}" for name, version in found]

    def entries(self, architecture: str, packages: list[str]) -> list[dict[str, Any]]:
        """The lock's entries for packages (`name`, or `name=version`), sorted by name.

        Raises:
            UserError: apt does not know one of them.
        """
        result = self._run(architecture, "apt-cache", "show", "--no-all-versions", *packages)
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
        if missing := {package.split("=")[0] for package in packages} - set(entries):
            raise self._unresolved(architecture, sorted(missing), result.stderr)
        return [entries[name] for name in sorted(entries)]

    def _state(self) -> Path:
        """The folder of the state, made and filled if it is not there yet."""
        if self._folder:
            return Path(self._folder.name)
        folder = tempfile.TemporaryDirectory(prefix="apertus-apt-")
        for name in ("state/lists/partial", "cache/archives/partial", "etc"):
            Path(folder.name, name).mkdir(parents=True)
        try:
            self._update(Path(folder.name))
        except BaseException:
            folder.cleanup()
            raise
        self._folder = folder
        return Path(folder.name)

    def _update(self, folder: Path) -> None:
        failures = []
        for mirror in self._mirrors:
            place = f"file://{mirror}" if mirror.startswith("/") else mirror
            source = f"deb [signed-by={self._keyring}] {place} {SUITE} main\n"
            (folder / "etc/sources.list").write_text(source)
            result = self._apt(folder, ",".join(ARCHITECTURES),
                               "apt-get", "update", "-q", "--error-on=any")
            if result.returncode == 0:
                return
            said = result.stderr.strip().splitlines() or ["no word"]
            faults = [line for line in said if line.startswith("E:")] or said[-1:]
            # A mirror's password is nobody else's business.
            shown = re.sub(r"//[^/@]*@", "//", f"{mirror}: {faults[0]}")
            failures.append(shown)
        raise UserError(
            f"no Debian mirror gives the lists of {SUITE}",
            expected=f"one of {len(self._mirrors)} mirrors to answer",
            got="\n            ".join(failures) or "no mirror configured",
            next_step="set APERTUS_DEBIAN_MIRRORS to a mirror that answers",
        )

    def _run(self, architecture: str, *command: str) -> subprocess.CompletedProcess[str]:
        return self._apt(self._state(), architecture, *command)

    @staticmethod
    def _apt(folder: Path, architectures: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of apt's for one architecture, or for several separated by commas."""
        settings = {
            "Dir::State": folder / "state",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": folder / "cache",
            "Dir::Cache::pkgcache": f"pkgcache-{architectures}.bin",
            "Dir::Cache::srcpkgcache": f"srcpkgcache-{architectures}.bin",
            "Dir::Etc::sourcelist": folder / "etc/sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "-",
            "APT::Architecture": architectures.split(",")[0],
            "APT::Architectures": architectures,
            "APT::Install-Recommends": "false",
            # Newer apt has another solver that may choose otherwise; all know this one.
            "APT::Solver": "internal",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
        }
        options = [item for key, value in settings.items() for item in ("-o", f"{key}={value}")]
        try:
            return subprocess.run([command[0], *options, *command[1:]], capture_output=True,
                                  text=True, env=os.environ | {"LC_ALL": "C.UTF-8"})
        except FileNotFoundError as error:
            raise UserError("apt is not on this machine", where=command[0],
                            next_step="lock Debian packages on a Debian machine") from error

    @staticmethod
    def _unresolved(architecture: str, names: list[str], said: str) -> UserError:
        return UserError(
            "apt cannot resolve the packages asked for",
            where=f"{SUITE}, {architecture}: {' '.join(names)}",
            got=said.strip() or "no such package", next_step="mend the .packages file",
        )


def point_release(text: str) -> tuple[str, str]:
    """Version (`13.8`) and date of a Release file of a point release's main suite.

    Updates, proposed updates, backports, security, testing and unstable drop packages at
    any time, so what is locked against them cannot be fetched tomorrow.

    Raises:
        UserError: it is of another suite.
    """
    fields = dict(re.findall(r"(?m)^(\w[\w-]*): (.*?)\s*$", text))
    version, date = fields.get("Version", ""), fields.get("Date")
    if fields.get("Codename") != SUITE or not date or not re.fullmatch(r"\d+\.\d+", version):
        raise UserError(
            "the suite is no point release's main suite",
            where=SUITE,
            expected=f"a Release file of {SUITE} with a Version like 13.8 and a Date",
            got=", ".join(f"{key} {fields[key]}" for key in
                          ("Label", "Suite", "Codename", "Version", "Date") if key in fields)
            or "no Release file",
            next_step="name a mirror of the Debian archive in APERTUS_DEBIAN_MIRRORS",
        )
    return version, date


def _paragraphs(text: str) -> Iterator[dict[str, str]]:
    for paragraph in text.strip().split("\n\n"):
        fields = re.findall(r"(?m)^([A-Za-z0-9-]+): (.*)$", paragraph)
        if fields:
            yield dict(fields)
