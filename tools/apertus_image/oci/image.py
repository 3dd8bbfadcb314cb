"""An image: nix2container's image JSON, and the config blob whose digest is the image ID."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError, raise_all
from apertus_image.oci import gojson
from apertus_image.oci.layer import Layer

__all__ = ["Image", "wrong_types"]

# Go's field order of the OCI image config (image-spec, config.md), and which are maps,
# which Go sorts.
CONFIG_FIELDS = ("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir",
                 "Labels", "StopSignal", "ArgsEscaped")
MAPS = ("ExposedPorts", "Volumes", "Labels")
LISTS = ("Env", "Entrypoint", "Cmd")
CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def _are_texts(field: str, value: Any) -> bool:
    texts = value if field in LISTS else value.values() if field == "Labels" else ()
    return all(isinstance(text, str) for text in texts)


def wrong_types(config: Mapping[str, Any], where: object = None,
                next_step: str | None = None) -> Iterator[UserError]:
    """What is in an OCI config's known fields, and of another type than OCI's."""
    for field in filter(config.__contains__, CONFIG_FIELDS):
        wanted = (list if field in LISTS else dict if field in MAPS
                  else bool if field == "ArgsEscaped" else str)
        value = config[field]
        if value is not None and not (isinstance(value, wanted) and _are_texts(field, value)):
            yield UserError("a field of an image's config has the wrong type",
                            where=f"{field} of {where}" if where else field,
                            expected=wanted.__name__, got=value, next_step=next_step)


def _problems(config: Mapping[str, Any], created: str) -> Iterator[UserError]:
    """What Go would refuse, or drop in silence."""
    mend = "mend nix/image.nix"
    if unknown := set(config) - set(CONFIG_FIELDS):
        yield UserError("unknown fields in an image's config", got=", ".join(sorted(unknown)),
                        expected=", ".join(CONFIG_FIELDS), next_step=mend)
    yield from wrong_types(config, next_step=mend)
    try:
        if not CREATED.fullmatch(created):
            raise ValueError("not in UTC, or not in whole seconds")
        datetime.fromisoformat(created)
    except ValueError as error:
        yield UserError("an image's creation date is malformed", where=created, got=error,
                        expected="YYYY-MM-DDThh:mm:ssZ")


@dataclass(frozen=True)
class Image:
    """An image, as its JSON describes it.

    Attributes:
        config: OCI config fields, in Go's order.
        layers: lowest first.
        architecture: OCI's name, the target's (case 6).
        created: RFC 3339, UTC, whole seconds.
    """

    config: dict[str, Any]
    layers: tuple[Layer, ...]
    architecture: str
    created: str

    @classmethod
    def make(cls, config: Mapping[str, Any], layers: Iterable[Layer], architecture: str,
             created: str) -> Image:
        """Put an image together; a layer that is there already is not added again.

        Raises:
            UserError: config fields that are unknown or of another type than OCI's, or a date
                that is not in UTC.
        """
        raise_all(_problems(config, created), "an image cannot be described: {n} problems")
        ordered = {}
        for field in CONFIG_FIELDS:
            if value := config.get(field):
                ordered[field] = dict(sorted(value.items())) if field in MAPS else value
        distinct: dict[str, Layer] = {}
        for layer in layers:
            distinct.setdefault(layer.digest, layer)
        return cls(ordered, tuple(distinct.values()), architecture, created)

    @classmethod
    def load(cls, file: Path) -> Image:
        """Read an image JSON.

        Raises:
            UserError: it is none.
        """
        try:
            data = json.loads(file.read_bytes())
            layers = tuple(Layer.parse(layer) for layer in data["layers"] or [])
            return cls(data["image-config"], layers, data["arch"], data["created"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError("not an image JSON", where=file, got=error,
                            expected="what tools/build prints the path of") from error

    def json(self) -> str:
        """The image JSON, byte for byte nix2container's."""
        return gojson.indented({
            "version": 1,
            "image-config": self.config,
            "layers": [layer.json() for layer in self.layers] or None,
            "arch": self.architecture,
            "created": self.created,
        })

    def config_blob(self) -> bytes:
        """The OCI image config that a registry stores."""
        rootfs = {"type": "layers" if self.layers else "",
                  "diff_ids": [layer.digest for layer in self.layers] or None}
        fields = {"created": self.created, "architecture": self.architecture, "os": "linux",
                  "config": self.config, "rootfs": rootfs}
        if self.layers:
            fields["history"] = [layer.history for layer in self.layers]
        return gojson.compact(fields).encode()

    @property
    def image_id(self) -> str:
        """`sha256:…` of the config blob."""
        return f"sha256:{hashlib.sha256(self.config_blob()).hexdigest()}"
