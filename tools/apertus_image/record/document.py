"""Small JSON documents with one form, so that a document has a digest.

The form: object keys sorted by code point, an indent of two blanks, UTF-8 without escapes for
what is not ASCII, numbers in Python's shortest form, one line end at the end. So a document can
be read and compared by eye, and whoever writes the same content writes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from apertus_image.errors import UserError, raise_all

__all__ = ["Document", "canonical"]

SCHEMAS = Path(__file__).parent / "schemas"


def canonical(data: Mapping[str, Any]) -> bytes:
    """The one form of a document."""
    text = json.dumps(data, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


@dataclass(frozen=True)
class Document:
    """A document of a schema; each kind is a class with its own.

    Attributes:
        data: as its schema describes it (schemas/KIND-1.json); not to be changed.
    """

    data: Mapping[str, Any]
    kind: ClassVar[str] = ""

    @classmethod
    def of(cls, data: Mapping[str, Any], where: object = None) -> Self:
        """A document of this kind.

        Raises:
            UserError: the data does not fit the schema; every fault is named.
        """
        document = cls({"schema": f"apertus-image/{cls.kind}/1", **data})
        raise_all(_faults(cls.kind, document.data, where), f"the {cls.kind} has {{n}} faults")
        return document

    @classmethod
    def parse(cls, data: bytes, where: object = None) -> Self:
        """From a file's bytes.

        Args:
            where: the file, for errors.

        Raises:
            UserError: no JSON, another schema, unknown or missing fields (all are named), or
                not in the one form, so that its digest would not be its content's.
        """
        try:
            fields = json.loads(data)
            if not isinstance(fields, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError) as error:
            raise UserError(f"the {cls.kind} is not JSON", where=where, got=error,
                            next_step="take it from where it was published") from error
        document = cls.of({"schema": None, **fields}, where)
        if document.bytes != data:
            raise UserError(
                f"the {cls.kind} is not in the form that it was written in", where=where,
                expected=f"{document.digest}, of the same content in that form",
                got=f"sha256:{hashlib.sha256(data).hexdigest()}",
                next_step="take it from where it was published; never reformat it")
        return document

    @property
    def bytes(self) -> bytes:
        """In the one form."""
        return canonical(self.data)

    @property
    def digest(self) -> str:
        """`sha256:…` of the bytes."""
        return f"sha256:{hashlib.sha256(self.bytes).hexdigest()}"


@cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"{kind}-1.json").read_bytes()))


def _faults(kind: str, data: Mapping[str, Any], where: object) -> list[UserError]:
    wanted = f"apertus-image/{kind}/1"
    if data.get("schema") != wanted:
        return [UserError(f"not a {kind} that this version knows", where=where, expected=wanted,
                          got=data.get("schema"), next_step="use the tools of its own time")]
    found = sorted(_validator(kind).iter_errors(dict(data)), key=lambda each: each.json_path)
    return [_told(kind, each, where) for each in found]


def _told(kind: str, error: ValidationError, where: object) -> UserError:
    place = f"{where}, {error.json_path}" if where else error.json_path
    return UserError(f"a field of the {kind} is wrong", where=place, got=error.message[:300])
