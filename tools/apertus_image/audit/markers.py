"""Markers (PEP 508) evaluated for an image, with several extras and groups at a time."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from packaging.markers import InvalidMarker, Marker

from apertus_image.errors import UserError

__all__ = ["applies", "encoded"]

EXTRA = re.compile(r"""\bextra\s*(==|!=)\s*(["'])([^"']*)\2""")
ALWAYS, NEVER = "os_name != ''", "os_name == ''"


def applies(marker: str | None, environment: Mapping[str, str], extras: Collection[str]) -> bool:
    """Whether a marker holds.

    Args:
        environment: of Installed.markers.
        extras: what `extra ==` is true for. A marker of uv's may ask for one and against another
            in one breath, which PEP 508's single `extra` cannot answer.

    Raises:
        UserError: it is malformed.
    """
    if not marker:
        return True

    def decided(found: re.Match[str]) -> str:
        return ALWAYS if (found[3] in extras) == (found[1] == "==") else NEVER

    try:
        return Marker(EXTRA.sub(decided, marker)).evaluate(dict(environment))
    except InvalidMarker as error:
        raise UserError("a marker is malformed", where=marker, got=str(error).splitlines()[0],
                        expected="as in PEP 508") from error


def encoded(package: str, extra: str, kind: str = "extra") -> str:
    """How uv.lock writes an extra (or `group`) of a package, where some conflict.

    Seen in its locks: `extra == 'extra-3-app-fast'`, 3 being the length of `app`.
    """
    return f"{kind}-{len(package)}-{package}-{extra}"
