"""The store paths of a layer, with the options nix2container knows for them.

The JSON field names and their order are nix2container's (types/types.go at the pinned
revision), since both makers must write the same file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apertus_image.errors import UserError

__all__ = ["LayerPath", "Perm", "expression"]

# The parts of an expression whose characters are not operators, and the end of the text.
PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\$", re.DOTALL)
# What Python knows and Go refuses: possessive and repeated quantifiers (in a store path named
# libstdc++, say), look-around, back-references.
ONLY_PYTHON = re.compile(r"[*+?}]\+|[*+]\*|\(\?(?![:imsU]|P<)|\\[1-9]")
MODE = re.compile(r"[0-7]{0,7}")


@functools.lru_cache
def expression(regex: str) -> re.Pattern[str]:
    """A regular expression as Go understands it; `$` is the very end of the text.

    Raises:
        UserError: it is malformed, or Go would refuse it.
    """
    def bare(part: re.Match[str]) -> str:
        return part[0] if part[0] == "$" or part[0][1:].isdigit() else "x"

    try:
        if found := ONLY_PYTHON.search(PART.sub(bare, regex)):
            raise ValueError(f"nix2container's language has no {found[0]}")
        return re.compile(PART.sub(lambda part: r"\Z" if part[0] == "$" else part[0], regex))
    except (re.error, ValueError) as error:
        raise UserError("a regular expression cannot be used", where=regex, got=error,
                        expected="Go's syntax (RE2)",
                        next_step="escape what is meant as it stands") from error


@dataclass(frozen=True)
class Perm:
    """A rule for entries whose store path matches `regex`.

    Attributes:
        mode: octal digits, empty to leave the mode alone.
        uid, gid: set by every rule, so 0 where a rule does not say.
        uname, gname: empty to leave them alone.
    """

    regex: str
    mode: str = ""
    uid: int = 0
    gid: int = 0
    uname: str = ""
    gname: str = ""

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Perm:
        """From JSON; what is absent is empty.

        Raises:
            UserError: a mode that is not octal, an owner below 0.
        """
        perm = cls(data["regex"], data.get("mode", ""), data.get("uid", 0), data.get("gid", 0),
                   data.get("uname", ""), data.get("gname", ""))
        if not MODE.fullmatch(perm.mode):
            raise UserError("a rule's mode is malformed", where=f"perms rule {perm.regex}",
                            expected="octal digits, 0644 or 1777", got=perm.mode)
        if perm.uid < 0 or perm.gid < 0:
            raise UserError("a rule's owner is negative", where=f"perms rule {perm.regex}",
                            got=f"uid {perm.uid}, gid {perm.gid}", expected="0 or more")
        return perm


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
        """Where an entry goes in the image; empty for nowhere.

        Raises:
            UserError: the rewrite cannot be done.
        """
        if self.rewrite is None:
            return path
        regex, replacement = self.rewrite
        if "$" in replacement:
            raise UserError("a rewrite's replacement refers to a group", where=self.path,
                            got=replacement, expected="text as it stands")
        return expression(regex).sub(lambda _: replacement, path)

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
