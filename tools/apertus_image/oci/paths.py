"""The store paths of a layer, with the options nix2container knows for them.

The JSON field names and their order are nix2container's (types/types.go at the pinned
revision), since both makers must write the same file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LayerPath", "Perm"]


@dataclass(frozen=True)
class Perm:
    """A rule for entries whose store path matches `regex`.

    Attributes:
        mode: octal digits, empty to leave the mode alone.
    """

    regex: str
    mode: str = ""
    uid: int = 0
    gid: int = 0
    uname: str = ""
    gname: str = ""

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Perm:
        """From JSON; what is absent is empty."""
        return cls(data["regex"], data.get("mode", ""), data.get("uid", 0), data.get("gid", 0),
                   data.get("uname", ""), data.get("gname", ""))


@dataclass(frozen=True)
class LayerPath:
    """One store path of a layer.

    Attributes:
        path: the store path.
        rewrite: (regex, replacement) on the path of each of its entries, or None.
        perms: rules, in order; all that match apply.
    """

    path: str
    rewrite: tuple[str, str] | None = None
    perms: tuple[Perm, ...] = field(default=())

    def target(self, path: str) -> str:
        """Where an entry goes in the image; empty for nowhere."""
        return re.sub(*self.rewrite, path) if self.rewrite else path

    def json(self) -> dict[str, Any]:
        """nix2container's form; options only where there are any."""
        if self.rewrite is None and not self.perms:
            return {"path": self.path}
        regex, replacement = self.rewrite or ("", "")
        options: dict[str, Any] = {"rewrite": {"regex": regex, "repl": replacement}}
        if self.perms:
            options["perms"] = [dict(vars(perm)) for perm in self.perms]
        return {"path": self.path, "options": options}

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> LayerPath:
        """From nix2container's form."""
        options = data.get("options") or {}
        rewrite = options.get("rewrite") or {}
        regex = rewrite.get("regex")
        return cls(
            data["path"],
            (regex, rewrite.get("repl", "")) if regex else None,
            tuple(Perm.parse(perm) for perm in options.get("perms") or []),
        )
