"""A site's profile: where a release works and where it puts what it made (YAML)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from apertus_image.errors import UserError, raise_all
from apertus_image.registry.reference import Reference

__all__ = ["PROFILES", "STEPS", "Profile", "Slurm"]

PROFILES = Path(__file__).parent / "profiles"
STEPS = ("prefetch", "build", "push", "export", "check", "record", "attach", "publish")

TEXT = {"type": "string", "minLength": 1}
IMAGE = {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_-]*$"}  # it names a folder too
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image", "scratch", "publish"],
    "properties": {
        "image": IMAGE,
        "scratch": TEXT,
        "store": TEXT,
        "publish": {
            "type": "object", "additionalProperties": False, "required": ["folder"],
            "properties": {"folder": TEXT, "readable": {"enum": ["all", "group"]}},
        },
        "registry": {
            "type": "object", "additionalProperties": False, "required": ["repository"],
            "properties": {"repository": TEXT, "serve": TEXT, "host": TEXT, "tag": TEXT,
                           "cache": {"type": "boolean"}, "plain_http": {"type": "boolean"},
                           "ca": TEXT, "format": {"enum": ["auto", "oci", "v2s2"]}},
            "oneOf": [{"required": ["serve"]}, {"required": ["host"]}],
        },
        "slurm": {
            "type": "object", "additionalProperties": False, "required": ["time"],
            "properties": {
                "account": TEXT, "partition": TEXT, "memory": TEXT, "time": TEXT,
                "attempts": {"type": "integer", "minimum": 1, "maximum": 20},
                "options": {"type": "array", "items": TEXT},
                "jobs": {"type": "array", "items": {"type": "array", "minItems": 1,
                                                    "items": {"enum": list(STEPS)}}},
            },
        },
    },
}
JOBS = (("prefetch", "build"), ("push",), ("export", "check"), ("record", "attach", "publish"))
ATTEMPTS = 3
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
PATHS = (("scratch",), ("store",), ("publish", "folder"), ("registry", "serve"), ("registry", "ca"))
"""The keys whose values are paths of this machine."""


@dataclass(frozen=True)
class Slurm:
    """How jobs are asked for.

    Attributes:
        time: of each job, as sbatch takes it.
        attempts: jobs a group of steps gets, should its time limit end them.
        jobs: the steps of each job, in order.
        options: further ones of sbatch.
    """

    time: str
    account: str = ""
    partition: str = ""
    memory: str = ""
    attempts: int = ATTEMPTS
    jobs: tuple[tuple[str, ...], ...] = JOBS
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """One site's.

    Attributes:
        name: of the profile.
        origin: what it was loaded by: a name, or a file's whole path.
        image: an output of the flake.
        scratch: where the release's own folder lies, with the work that is under way.
        store: the physical store's folder, None for /nix.
        publish: where finished files go.
        readable: `all` or `group`.
        registry: its part of the profile, paths whole; None for a release without a registry.
    """

    name: str
    origin: str
    image: str
    scratch: Path
    publish: Path
    readable: str = "all"
    store: Path | None = None
    registry: Mapping[str, Any] | None = None
    slurm: Slurm | None = None

    def of(self, image: str) -> Profile:
        """The same for another image.

        Raises:
            UserError: no image has such a name.
        """
        if not jsonschema.Draft202012Validator(IMAGE).is_valid(image):
            raise UserError("no image has such a name", got=repr(image),
                            next_step="tools/build --help names them")
        return replace(self, image=image)

    @classmethod
    def load(cls, name: str, environment: Mapping[str, str] | None = None) -> Profile:
        """Read a profile by its name, or a file by its path.

        `${VAR}` and `${VAR:-default}` are replaced. Then `~` at a path's start is, and a relative
        path is one from the folder that the command is given in.

        Raises:
            UserError: listing every fault of the file.
        """
        file = Path(name) if "/" in name or name.endswith((".yaml", ".yml")) else (
            PROFILES / f"{name}.yaml")
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            known = ", ".join(sorted(each.stem for each in PROFILES.glob("*.yaml")))
            raise UserError("no such profile", where=file, got=error.strerror,
                            expected=f"a file, or one of: {known}") from error
        except UnicodeDecodeError as error:
            raise UserError("a profile is no text", where=file, expected="UTF-8",
                            got=error) from error
        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError("a profile is no YAML", where=file, got=error) from error
        raise_all(_faults(data, file), "the profile has {n} faults")
        given = os.environ if environment is None else environment
        raise_all(_unset(data, file, given), "the profile has {n} faults")
        data = _expanded(data, given)
        raise_all(_settled(data, file), "the profile has {n} faults")
        _nameable(data.get("registry"), file)
        slurm = data.get("slurm")
        if slurm:
            slurm = {**slurm, "options": tuple(slurm.get("options", ())),
                     "jobs": tuple(map(tuple, slurm.get("jobs", JOBS)))}
            _whole(slurm["jobs"], file)
        return cls(
            name=file.stem, origin=name if file.parent == PROFILES else str(file.resolve()),
            image=data["image"], scratch=data["scratch"], publish=data["publish"]["folder"],
            readable=data["publish"].get("readable", "all"),
            store=data.get("store"), registry=data.get("registry"),
            slurm=Slurm(**slurm) if slurm else None)


def _faults(data: Any, file: Path) -> Iterator[UserError]:
    for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(data):
        at = "/".join(map(str, error.absolute_path)) or "the file"
        expected, got, next_step = None, error.message, "docs/release.md describes every key"
        if error.validator == "oneOf":  # the one there is: a registry's
            expected = "serve, a folder, or host, a registry that runs"
            got = "both" if {"serve", "host"} <= error.instance.keys() else "neither"
        elif error.validator == "type" and error.validator_value == "string" and (
                isinstance(error.instance, bool | int | float | date)):
            # YAML reads 12:00:00 as a number of base 60, and 26.10 as 26.1.
            got = f"a value that YAML does not read as text: {error.instance!r}"
            next_step = "write it in quotes, as in \"12:00:00\""
        yield UserError("a profile does not fit its schema", where=f"{file}: {at}",
                        expected=expected, got=got, next_step=next_step)


def _nameable(registry: Mapping[str, Any] | None, file: Path) -> None:
    """Names that no registry takes are told now, not after the build."""
    if registry:
        tag = f":{registry['tag']}" if "tag" in registry else ""
        host = registry.get("host", "localhost")
        text, why = f"{host}/{registry['repository']}{tag}", ""
        try:
            if Reference.parse(text).host != host:
                why = "a host has no /"
        except UserError as error:
            why = error.got
        if why:
            raise UserError("a profile's registry cannot be named so", where=f"{file}: registry",
                            expected="host, repository and tag as in HOST[:PORT]/REPOSITORY:TAG",
                            got=f"{text}: {why}")


def _whole(jobs: tuple[tuple[str, ...], ...], file: Path) -> None:
    if tuple(step for job in jobs for step in job) != STEPS:
        raise UserError("a profile's jobs do not hold every step once, in order",
                        where=f"{file}: slurm/jobs", expected=" ".join(STEPS),
                        got=" | ".join(" ".join(job) for job in jobs))


def _unset(data: Any, file: Path, environment: Mapping[str, str]) -> Iterator[UserError]:
    """An error for each variable that is needed and not set, with the first value it is for."""
    needed: dict[str, str] = {}
    for value in _texts(data):
        for match in VARIABLE.finditer(value):
            if match[2] is None and not environment.get(match[1]):
                needed.setdefault(match[1], value)
    for name, value in needed.items():
        yield UserError("a profile needs a variable that is not set", where=file,
                        expected=f"{name}, for {value}", next_step=f"export {name}=…")


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _texts(value)
    elif isinstance(data, str):
        yield data


def _expanded(data: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(data, dict):
        return {key: _expanded(value, environment) for key, value in data.items()}
    if isinstance(data, list):
        return [_expanded(value, environment) for value in data]
    if not isinstance(data, str):
        return data
    return VARIABLE.sub(lambda match: environment.get(match[1]) or match[2], data)


def _settled(data: dict[str, Any], file: Path) -> Iterator[UserError]:
    """Make every path of a profile whole, in place; the faults of those that cannot be."""
    for *parts, key in PATHS:
        inner = data
        for part in parts:
            inner = inner.get(part, {})
        if key not in inner:
            continue
        where, text = f"{file}: {'/'.join([*parts, key])}", inner[key]
        try:
            inner[key] = Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100 - links stay
        except RuntimeError as error:
            yield UserError("a profile's ~ is nobody's home", where=where, got=f"{text}: {error}",
                            next_step="write the whole path")
            continue
        if not text:
            yield UserError("a profile's path is empty", where=where,
                            next_step="write one, or set the variable that it is made of")
        elif key == "ca" and not inner[key].is_file():
            yield UserError("a profile's certificates are not there", where=where,
                            expected="a PEM file", got=inner[key])
