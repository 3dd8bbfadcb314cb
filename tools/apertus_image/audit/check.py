"""One revision by itself: everything is locked, every lock is sound, every file is the pinned one.

No network is asked and nothing is written. What cannot be looked at here, since it is not in the
store, is counted and not taken for granted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from apertus_image.audit import licences, nixcode
from apertus_image.audit.locks import inputs, read
from apertus_image.audit.patches import tried
from apertus_image.audit.report import Change
from apertus_image.errors import UserError
from apertus_image.patch.data import describe
from apertus_image.pins import lockfile
from apertus_image.pins.names import store_name
from apertus_image.record.licence import Licences
from apertus_image.release.gate import lock_faults
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store

__all__ = ["Checked", "Pin", "check", "pins_of", "stopping", "told"]

CHUNK = 1 << 20
WORKERS = 4
SECTIONS = {"wheels": ("x86_64", "aarch64"), "userland": ("amd64", "arm64"),
            "toolchain": ("amd64", "arm64"), "toolchain-go": ("amd64", "arm64"),
            "bootstrap": ("amd64", "arm64")}
NAR_HASH = re.compile(r"sha256-[0-9A-Za-z+/]{43}=")
EXCEPTIONS = "nix/pins/licence-exceptions.json"


@dataclass(frozen=True)
class Pin:
    """One pinned file.

    Attributes:
        kind: `wheel` or `deb`.
        where: lock, section and name.
        file: its own name.
        path: where it belongs in the store.
        entry: of the lock.
    """

    kind: str
    where: str
    name: str
    version: str
    file: str
    sha256: str
    size: int
    path: str
    entry: Mapping[str, Any] = field(compare=False, default_factory=dict)


@dataclass
class Checked:
    """What a check found.

    Attributes:
        findings: faults, in the order of the checks.
        counts: what was looked at, by what.
        absent: pinned files that are not in the store, so that neither bytes nor licence was seen.
    """

    findings: list[UserError] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    absent: int = 0


def stopping(project: Path, store: Store) -> list[Change]:
    """What of a revision's locks must stop a release (cases 31, 48)."""
    return [told(each) for each in lock_faults(project, store)]


def told(error: UserError, group: str = "lock") -> Change:
    """A fault as a change of an audit that stops a release."""
    return Change(group, "changed", str(error.where or error.what), str(error.expected or ""),
                  str(error.got or ""), notes=(error.what,), stop=True,
                  next_step=error.next_step or "")


def check(project: Path, store: Store,
          progress: Callable[[str, int], Callable[[int], None]]
          = lambda _label, _total: lambda _bytes: None) -> Checked:
    """All checks of one revision.

    Args:
        project: root of its files.
        progress: given a label and a total of bytes, gives what is told of each part.

    Raises:
        UserError: what is not to be read at all.
    """
    done = Checked()
    done.findings += lock_faults(project, store)
    pins = list(pins_of(project))
    files = sorted((project / "nix").rglob("*.nix")) + [project / "flake.nix"]
    patches = tried(project, store)
    done.counts = {"pins": len(pins), "Nix files": len(files), "patches": patches.count}
    done.findings += [*_nar_hashes(project / "flake.lock"), *_hashes_twice(pins), *_names(pins),
                      *_code(project, files), *_patches(project), *patches.faults]
    known = {pin.path: pin for pin in pins}
    here = [pin for path, pin in known.items() if store.physical(path).is_file()]
    done.absent = len(known) - len(here)
    told = progress("hashing the pinned files", sum(pin.size for pin in here))
    done.findings += _bytes(here, store, told)
    told = progress("reading licences", sum(pin.size for pin in here))
    done.findings += _licences(project, here, store, told, whole=not done.absent)
    done.counts |= {"files of the store": len(here), "licences": len(here)}
    return done


def pins_of(project: Path) -> Iterator[Pin]:
    """Every pinned file of every lock that can be read; what cannot be is another's finding."""
    for name, sections in SECTIONS.items():
        try:
            lock = lockfile.load(project / f"nix/pins/{name}.json")
        except UserError:
            continue
        for section in sections:
            for entry in lock[section]:
                file = entry.get("file") or entry["path"].rpartition("/")[2]
                yield Pin("wheel" if name == "wheels" else "deb",
                          f"{name}.json, {section}, {entry['name']}", entry["name"],
                          entry["version"], file, entry["sha256"], entry["size"],
                          fixed_output_path(store_name(file), entry["sha256"]), entry)


def _nar_hashes(file: Path) -> Iterator[UserError]:
    """Hashes of inputs that no content could have."""
    try:
        found = inputs(read(file), file)
    except UserError:
        return  # told above
    for path, one in found.items():
        sha256 = one.locked.get("narHash")
        if one.follows is None and sha256 and not NAR_HASH.fullmatch(str(sha256)):
            yield UserError("an input's hash is malformed", where=f"{file.name}: input {path}",
                            expected="sha256- and 44 digits of base 64", got=sha256,
                            next_step="git checkout flake.lock")


def _patches(project: Path) -> Iterator[UserError]:
    """Patches under a licence that SPDX has no name for."""
    for file in sorted(project.glob("nix/patches/*/*/patch.json")):
        licence = describe(file)["licence"]
        if not licences.spdx(Licences(names=(licence,), expression=licence)):
            yield UserError("a patch's licence has no name of SPDX's",
                            where=file.relative_to(project), got=licence,
                            next_step="write it as SPDX does: Apache-2.0")


def _hashes_twice(pins: list[Pin]) -> Iterator[UserError]:
    """Two names with one hash: one of them is not what it is called."""
    names = defaultdict(set)
    for pin in pins:
        names[pin.sha256].add((pin.name, pin.file))
    for sha256, found in sorted(names.items()):
        if len(found) > 1:
            files = ", ".join(sorted(file for _, file in found))
            yield UserError("one hash is pinned under two names",
                            where=", ".join(sorted({name for name, _ in found})),
                            got=f"sha256 {sha256} of {files}",
                            next_step="lock both anew; tools/lock --check shows what changes")


def _names(pins: list[Pin]) -> Iterator[UserError]:
    """Names of files that do not agree with their pins (case 29)."""
    for pin in pins:
        wanted, got = (_wheel if pin.kind == "wheel" else _deb)(pin)
        if wanted != got:
            yield UserError("a pin's file is named for something else", where=pin.where,
                            expected=wanted, got=got,
                            next_step="git checkout the lock, or make it anew: tools/lock")


def _wheel(pin: Pin) -> tuple[str, str]:
    """Name, version and tags as the pin and as the file's name say them."""
    try:
        name, version, _, tags = parse_wheel_filename(pin.file)
    except InvalidWheelFilename as error:
        return "a wheel's file name", str(error)
    locked = sorted(pin.entry["tags"])
    return (f"{canonicalize_name(pin.name)} {pin.version} {', '.join(locked)}",
            f"{name} {version} {', '.join(sorted(map(str, tags)))}")


def _deb(pin: Pin) -> tuple[str, str]:
    """A Debian file's name has the version without its epoch."""
    version = pin.version.partition(":")[2] or pin.version
    wanted = f"{pin.name}_{version}_{pin.entry['architecture']}.deb"
    escaped = f"{pin.name}_{pin.version.replace(':', '%3a')}_{pin.entry['architecture']}.deb"
    return wanted, wanted if pin.file == escaped else pin.file


def _code(project: Path, files: list[Path]) -> Iterator[UserError]:
    for file in files:
        for line, what, why in nixcode.unpinned(file.read_text(encoding="utf-8")):
            yield UserError("Nix code takes in what is not pinned",
                            where=f"{file.relative_to(project)}:{line}", got=f"{what}: {why}",
                            next_step="pin it in nix/pins, or make it an input of flake.nix")


def _bytes(pins: list[Pin], store: Store, told: Callable[[int], None]) -> list[UserError]:
    def one(pin: Pin) -> UserError | None:
        file, digest = store.physical(pin.path), hashlib.sha256()
        try:
            with file.open("rb") as data:
                while chunk := data.read(CHUNK):
                    digest.update(chunk)
                    told(len(chunk))
        except OSError as error:
            return UserError("a pinned file cannot be read", where=file, got=error.strerror)
        if digest.hexdigest() == pin.sha256:
            return None
        return UserError("a file in the store is not the one that is pinned", where=file,
                         expected=f"sha256 {pin.sha256}, of {pin.where}",
                         got=f"sha256 {digest.hexdigest()}",
                         next_step=f"nix-store --delete {pin.path}, then tools/prefetch")

    with ThreadPoolExecutor(WORKERS) as pool:
        return [each for each in pool.map(one, pins) if each is not None]


def _licences(project: Path, pins: list[Pin], store: Store, told: Callable[[int], None],
              *, whole: bool) -> Iterator[UserError]:
    """Pins that neither SPDX nor an exception has a name for, and exceptions of none."""
    exceptions = _exceptions(project / EXCEPTIONS)
    needed: set[int] = set()
    for pin in pins:
        file = store.physical(pin.path)
        try:
            found = licences.of_wheel(file) if pin.kind == "wheel" else licences.of_deb(
                file, pin.name)
        except (UserError, OSError, ValueError):
            continue  # a damaged file has been told above
        finally:
            told(pin.size)
        says = found.unknown or found.expression or ", ".join(found.names)
        if licences.spdx(found):
            continue
        match = next((number for number, each in enumerate(exceptions)
                      if each["kind"] == pin.kind and fnmatchcase(pin.name, each["name"])
                      and fnmatchcase(says, each["says"])), None)
        if match is None:
            yield UserError("a pin's licence has no name of SPDX's", where=pin.where, got=says,
                            next_step=f"say in {EXCEPTIONS} what it is, and why it may be used")
        else:
            needed.add(match)
    for number, each in enumerate(exceptions if whole else []):
        if number not in needed:
            yield UserError("an exception for a licence is not needed", where=EXCEPTIONS,
                            got=f"{each['kind']} {each['name']}: {each['says']}",
                            next_step="take it out")


def _exceptions(file: Path) -> list[dict[str, str]]:
    try:
        found = json.loads(file.read_bytes())
        if not all(isinstance(each[key], str) and each[key]
                   for each in found for key in ("kind", "name", "says", "reason")):
            raise ValueError("a field is no text, or empty")
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise UserError("the exceptions for licences are malformed", where=file,
                        expected="a list of {kind, name, says, reason}", got=error) from error
    return found
