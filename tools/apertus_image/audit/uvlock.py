"""uv.lock: the packages of one environment, as uv would install them.

Source: locks written by uv, format 1, of revisions up to 5. A revision adds fields, a version
changes meanings, so another version is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from apertus_image.audit.markers import applies, encoded
from apertus_image.audit.wanted import GIT, INDEX, LOCAL, URL, Wanted
from apertus_image.errors import UserError

__all__ = ["UvLock"]

VERSION = 1
AGAIN = "uv lock"
Entry = Mapping[str, Any]


def _object(needed: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(needed)}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


TEXT = {"type": "string", "minLength": 1}
SOURCE = {"type": "object", "minProperties": 1, "properties": {
    key: TEXT for key in ("registry", "git", "url", "path", "virtual", "editable", "directory")}}
DEPENDENCIES = _list(_object(("name",), name=TEXT, version=TEXT, marker=TEXT, source=SOURCE,
                             extra=_list(TEXT)))
SHAPE = Draft202012Validator(_object(**{"requires-python": {"type": "string"}, "package": _list(
    _object(("name", "source"), name=TEXT, version=TEXT, source=SOURCE, **{
        "dependencies": DEPENDENCIES, "resolution-markers": _list(TEXT),
        "optional-dependencies": {"type": "object", "additionalProperties": DEPENDENCIES},
        "dev-dependencies": {"type": "object", "additionalProperties": DEPENDENCIES},
        "wheels": _list(_object(url=TEXT, path=TEXT, filename=TEXT)),
        "metadata": _object(**{"requires-dist": _list(_object(
            ("name",), name=TEXT, specifier=TEXT))}),
    }))}))
"""The fields that are read here; others are let be, since a revision may add some."""


@dataclass(frozen=True)
class UvLock:
    """A lock.

    Attributes:
        file: where it was read.
        packages: by name; several where versions fork.
        requires_python: what all of it was resolved for.
    """

    file: Path
    packages: Mapping[str, list[Entry]]
    requires_python: SpecifierSet

    @classmethod
    def load(cls, file: Path) -> UvLock:
        """Read a lock.

        Raises:
            UserError: no TOML, another version, or not a lock.
        """
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _malformed(file, error) from error
        if data.get("version") != VERSION:
            raise UserError("uv.lock is of an unknown version", where=file, expected=VERSION,
                            got=data.get("version"), next_step="lock it with a uv that writes 1, "
                            "or use a newer tools/compat")
        packages: dict[str, list[Entry]] = {}
        try:
            SHAPE.validate(data)
            for each in data.get("package", []):
                for one in each.get("metadata", {}).get("requires-dist", []):
                    SpecifierSet(one.get("specifier", ""))
                packages.setdefault(canonicalize_name(each["name"]), []).append(each)
            requires_python = SpecifierSet(data.get("requires-python", ""))
        except ValidationError as error:
            raise _malformed(file, f"{error.json_path}: {error.message[:200]}") from error
        except InvalidSpecifier as error:
            raise _malformed(file, error) from error
        return cls(file, packages, requires_python)

    def root(self, name: str) -> Entry:
        """The project's own entry.

        Raises:
            UserError: the lock is another project's.
        """
        for each in self.packages.get(canonicalize_name(name), []):
            if _local(each["source"]) is not None:
                return each
        raise UserError("uv.lock is not this project's", where=self.file, expected=name,
                        got=", ".join(sorted(self.packages)[:5]) or "no package", next_step=AGAIN)

    def closure(self, name: str, extras: Collection[str], groups: Collection[str],
                environment: Mapping[str, str]) -> list[Wanted]:
        """What an environment is made of, by name; the project itself is not in it.

        Args:
            name: the project's.
            extras, groups: of the project, normalised.
            environment: of Installed.markers.

        Raises:
            UserError: an entry points at none, or at several.
        """
        root = self.root(name)
        active = {encoded(root["name"], extra) for extra in extras}
        active |= {encoded(root["name"], group, "group") for group in groups}
        found: dict[str, Entry] = {}
        seen: set[tuple[str, str, str]] = set()
        left = [(root, extra) for extra in ("", *extras)]
        left += [(root, f"group:{group}") for group in groups]
        while left:
            entry, part = left.pop()
            key = (entry["name"], entry.get("version", ""), part)
            if key in seen:
                continue
            seen.add(key)
            if entry is not root:
                found[f"{entry['name']} {entry.get('version', '')}"] = entry
            for dependency in _dependencies(entry, part):
                if not applies(dependency.get("marker"), environment, active):
                    continue
                wanted = self._entry(dependency, environment, active)
                for extra in dependency.get("extra", []):
                    active.add(encoded(wanted["name"], extra))
                left += [(wanted, extra) for extra in ("", *dependency.get("extra", []))]
        return sorted((_wanted(each) for each in found.values()), key=lambda each: each.name)

    def _entry(self, dependency: Entry, environment: Mapping[str, str], active: Collection[str]
               ) -> Entry:
        """The package that a dependency means; a fork's by version, source or marker."""
        candidates = [
            each for each in self.packages.get(canonicalize_name(dependency["name"]), [])
            if all(key not in dependency or each.get(key) == dependency[key]
                   for key in ("version", "source"))]
        if len(candidates) > 1:
            candidates = [each for each in candidates if any(
                applies(marker, environment, active)
                for marker in each.get("resolution-markers", [""]))]
        if len(candidates) != 1:
            raise _malformed(self.file, f"{len(candidates)} packages fit the dependency "
                                        f"{dependency['name']}")
        return candidates[0]


def _dependencies(entry: Entry, part: str) -> list[Entry]:
    if not part:
        return entry.get("dependencies", [])
    if part.startswith("group:"):
        return entry.get("dev-dependencies", {}).get(part.removeprefix("group:"), [])
    return entry.get("optional-dependencies", {}).get(part, [])


def _local(source: Mapping[str, str]) -> str | None:
    """The folder of a source that is one."""
    return next((source[key] for key in ("virtual", "editable", "directory") if key in source),
                None)


def _wanted(entry: Entry) -> Wanted:
    source, version = entry["source"], str(entry.get("version", ""))
    name, files = canonicalize_name(entry["name"]), tuple(_files(entry))
    if (folder := _local(source)) is not None:
        return Wanted(name, version, source=LOCAL, place=folder)
    if "git" in source:
        return Wanted(name, version, source=GIT, place=source["git"])
    for key in ("url", "path"):
        if key in source:
            file = unquote(urlsplit(source[key]).path).rpartition("/")[2]
            wheel = (file,) if file.endswith(".whl") else files
            return Wanted(name, version, source=URL, place=source[key], files=wheel,
                          built=not wheel)
    return Wanted(name, version, source=INDEX, files=files, built=not files)


def _files(entry: Entry) -> Iterator[str]:
    for wheel in entry.get("wheels", []):
        address = wheel.get("filename") or wheel.get("url") or wheel.get("path") or ""
        yield unquote(urlsplit(address).path).rpartition("/")[2]


def _malformed(file: Path, got: object) -> UserError:
    return UserError("uv.lock cannot be understood", where=file, got=got,
                     expected="what uv lock writes", next_step=AGAIN)
