"""A user's checkout as Python sees it: pyproject.toml, uv.lock, submodules."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from apertus_image.audit.markers import applies
from apertus_image.audit.uvlock import UvLock
from apertus_image.audit.wanted import GIT, LOCAL, URL, Wanted
from apertus_image.errors import UserError, raise_all

__all__ = ["Project", "Submodule"]

# What is named by a place and not by a version has no specifier in a lock.
PLACED = ("git", "url", "path", "directory", "editable", "virtual")
Extras = Mapping[str, Mapping[str, list[Requirement]]]


@dataclass(frozen=True)
class Submodule:
    """A submodule, by .gitmodules.

    Attributes:
        path: below the checkout.
        there: whether it is checked out.
    """

    path: str
    there: bool


@dataclass(frozen=True)
class Project:
    """A checkout.

    Attributes:
        name: normalised.
        requires_python: a specifier, empty for any.
        pinned_python: what .python-version asks for; empty without one.
        dependencies: of pyproject.toml; None where its build makes them up (`dynamic`).
        extras, groups: name -> requirements.
        sources: `tool.uv.sources`, by normalised name.
        lock: uv.lock; None without one.
    """

    folder: Path
    name: str
    requires_python: SpecifierSet
    pinned_python: str
    dependencies: list[Requirement] | None
    extras: Mapping[str, list[Requirement]]
    groups: Mapping[str, list[Requirement]]
    sources: Mapping[str, Mapping[str, Any]]
    submodules: tuple[Submodule, ...]
    lock: UvLock | None

    @classmethod
    def read(cls, folder: Path) -> Project:
        """Read a checkout; nothing of it is run.

        Raises:
            UserError: there is no pyproject.toml, one of the files is malformed, or the lock is
                older than pyproject.toml.
        """
        file = folder / "pyproject.toml"
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UserError("no Python project", where=folder, expected="pyproject.toml in it",
                            next_step="name the folder of a checkout") from error
        except (OSError, ValueError) as error:
            raise UserError("pyproject.toml cannot be read", where=file, got=error) from error
        try:
            table = data["project"]
            name = canonicalize_name(table["name"])
            groups = data.get("dependency-groups", {})
            found = cls(
                folder, name, SpecifierSet(table.get("requires-python", "")), _pinned(folder),
                None if "dependencies" in table.get("dynamic", [])
                else [Requirement(each) for each in table.get("dependencies", [])],
                {canonicalize_name(extra): [Requirement(each) for each in texts]
                 for extra, texts in table.get("optional-dependencies", {}).items()},
                {canonicalize_name(group): list(_group(groups, group, ())) for group in groups},
                {canonicalize_name(key): dict(value[0] if isinstance(value, list) else value)
                 for key, value in data.get("tool", {}).get("uv", {}).get("sources", {}).items()},
                tuple(_submodules(folder)),
                UvLock.load(folder / "uv.lock") if (folder / "uv.lock").exists() else None)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise UserError("pyproject.toml is malformed", where=file,
                            got=f"{type(error).__name__}: {error}".splitlines()[0],
                            expected="a [project] table as in PEP 621") from error
        raise_all(found._stale(), "uv.lock is older than pyproject.toml: {n} differences")
        return found

    def known(self, extras: Collection[str], groups: Collection[str]) -> None:
        """Raises UserError: an extra or group that the project does not have."""
        for kind, asked, there in (("extra", extras, self.extras), ("group", groups, self.groups)):
            if unknown := sorted(set(asked) - set(there)):
                raise UserError(f"the project has no such {kind}", where=self.folder,
                                got=", ".join(unknown), expected=", ".join(there) or "none")

    def wanted(self, extras: Collection[str], groups: Collection[str],
               environment: Mapping[str, str]) -> list[Wanted]:
        """What one environment is made of: by the lock with all it depends on, else as declared.

        Raises:
            UserError: nothing says it.
        """
        if self.lock:
            return self.lock.closure(self.name, extras, groups, environment)
        if self.dependencies is None:
            raise UserError("the project's dependencies are made up by its build",
                            where=self.folder / "pyproject.toml", expected="uv.lock, or "
                            "dependencies that are not dynamic", next_step="uv lock")
        return [self._declared(each) for each in self.declared(extras, groups, environment)]

    def declared(self, extras: Collection[str], groups: Collection[str],
                 environment: Mapping[str, str]) -> Iterator[Requirement]:
        """The requirements of pyproject.toml that hold for an image."""
        texts = [*(self.dependencies or ()), *(each for extra in extras
                                               for each in self.extras[extra]),
                 *(each for group in groups for each in self.groups[group])]
        seen = {self.name}
        for each in texts:
            if not applies(str(each.marker) if each.marker else None, environment, extras):
                continue
            name = canonicalize_name(each.name)
            if name == self.name:  # `app[all]`, an extra made of others
                more = {canonicalize_name(extra) for extra in each.extras} - set(extras)
                texts += [one for extra in sorted(more) for one in self.extras.get(extra, ())]
            elif (str(each)) not in seen:
                seen.add(str(each))
                yield each

    def _declared(self, requirement: Requirement) -> Wanted:
        name = canonicalize_name(requirement.name)
        source = self.sources.get(name, {})
        place = source.get("git") or requirement.url or ""
        if source.get("workspace") or "path" in source:
            return Wanted(name, source=LOCAL, place=str(source.get("path", "workspace")))
        if "git" in source or place.startswith("git+"):
            revision = next((source[key] for key in ("rev", "tag", "branch") if key in source), "")
            return Wanted(name, source=GIT, place=f"{place}@{revision}".rstrip("@"))
        if place or "url" in source:
            place = place or source["url"]
            file = place.rpartition("/")[2].partition("#")[0]
            return Wanted(name, source=URL, place=place,
                          files=(file,) if file.endswith(".whl") else (), built=True)
        return Wanted(name, specifier=str(requirement.specifier))

    def _stale(self) -> Iterator[UserError]:
        """Where the lock's own copy of the declarations is not what is declared now."""
        if self.lock is None:
            return
        metadata = self.lock.root(self.name).get("metadata", {})
        locked = {canonicalize_name(each["name"]): each
                  for each in metadata.get("requires-dist", [])}
        for each in [*(self.dependencies or ()), *(one for extra in self.extras.values()
                                                   for one in extra)]:
            name = canonicalize_name(each.name)
            if name == self.name:
                continue
            specifiers = [SpecifierSet(one.get("specifier", ""))
                          for one in metadata.get("requires-dist", [])
                          if canonicalize_name(one["name"]) == name]
            entry = locked.get(name)
            placed = entry is not None and any(key in entry for key in PLACED)
            if entry is None or not (placed or each.specifier in specifiers):
                yield UserError("uv.lock is older than pyproject.toml", where=self.lock.file,
                                expected=str(each), next_step="uv lock",
                                got=", ".join(map(str, specifiers)) or "no such entry")


def _group(groups: Mapping[str, list], name: str, seen: tuple[str, ...]) -> Iterator[Requirement]:
    """A dependency group with those that it includes (PEP 735)."""
    for each in groups[name]:
        if isinstance(each, str):
            yield Requirement(each)
        elif (other := each["include-group"]) not in (*seen, name):
            real = {canonicalize_name(key): key for key in groups}
            yield from _group(groups, real[canonicalize_name(other)], (*seen, name))


def _pinned(folder: Path) -> str:
    file = folder / ".python-version"
    lines = file.read_text(errors="replace").split() if file.is_file() else []
    return lines[0].removeprefix("cpython@").removeprefix("cpython-") if lines else ""


def _submodules(folder: Path) -> Iterator[Submodule]:
    """By .gitmodules; git's configuration is an INI file with tabs."""
    file = folder / ".gitmodules"
    parser = configparser.RawConfigParser(strict=False)
    try:
        if file.is_file():
            parser.read_string("\n".join(line.strip() for line in file.read_text().splitlines()))
    except (configparser.Error, ValueError) as error:
        raise UserError(".gitmodules is malformed", where=file, got=error) from error
    for section in parser.sections():
        if path := parser.get(section, "path", fallback=""):
            yield Submodule(path, any((folder / path).glob("*")))
