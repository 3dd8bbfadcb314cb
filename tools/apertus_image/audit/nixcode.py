"""Nix code that takes in what no lock pins: fetches without a hash, and the machine's own state."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["code", "unpinned"]

FETCH = re.compile(r"\bfetch(?:[uU]rl|[tT]arball|[gG]it|Mercurial|Tree|Closure|zip|patch|hg|svn|"
                   r"From[A-Z]\w*)\b")
HASH = re.compile(r"\b(?:sha256|sha512|hash|narHash|outputHash)\s*=")
IMPURE = (
    (re.compile(r"<[A-Za-z_][\w.+/-]*>"), "a path of NIX_PATH"),
    (re.compile(r"\bgetFlake\b"), "a flake that is no input"),
    (re.compile(r"\bgetEnv\b"), "a variable of the surroundings"),
    (re.compile(r"\b(?:currentTime|currentSystem|nixPath|storePath|exec|importNative)\b"),
     "what differs from machine to machine"),
    (re.compile(r"\b__(?:impure|noChroot)\b"), "a build outside the sandbox"),
    (re.compile(r"(?<![\w.+$})\"'\]-])(?:~|/[A-Za-z_])[\w.+-]*(?:/[\w.+-]+)+"),
     "a path of one machine"),
)


def unpinned(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, what it says, why it is not pinned) of a Nix file.

    A fetch passes if the arguments that follow it have a hash.
    """
    bare = code(text)
    for match in FETCH.finditer(bare):
        if not HASH.search(_arguments(bare, match.end())):
            yield bare.count("\n", 0, match.start()) + 1, match[0], "a fetch without a hash"
    for expression, why in IMPURE:
        for match in expression.finditer(bare):
            yield bare.count("\n", 0, match.start()) + 1, match[0], why


def _arguments(bare: str, start: int) -> str:
    """The set that follows, if one does."""
    rest = bare[start:]
    if not rest.lstrip().startswith("{"):
        return ""
    depth = 0
    for number, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if character == "}" and depth == 0:
            return rest[:number]
    return rest


def code(text: str) -> str:
    """The file with comments and texts blanked, lines kept; what texts interpolate is code.

    Source: Nix manual, "String", "Comments".
    """
    out: list[str] = []
    _code(text, 0, out, inner=False)
    return "".join(out)


def _code(text: str, at: int, out: list[str], *, inner: bool) -> int:
    """Copy code from `at`; within an interpolation, up to the brace that ends it."""
    depth = 0
    while at < len(text):
        if text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            end = len(text) if end < 0 else end + 2
            out.append("\n" * text.count("\n", at, end))
            at = end
        elif text[at] == '"':
            at = _text(text, at + 1, out, '"')
        elif text.startswith("''", at):
            at = _text(text, at + 2, out, "''")
        else:
            depth += (text[at] == "{") - (text[at] == "}")
            if inner and depth < 0:
                return at + 1
            out.append(text[at])
            at += 1
    return at


def _text(text: str, at: int, out: list[str], end: str) -> int:
    """Skip a text, but for its interpolations; what follows it."""
    out.append('"')
    while at < len(text):
        if end == "''" and text.startswith(("'''", "''$", "''\\"), at):
            at += 3
        elif text.startswith(end, at):
            out.append('"')
            return at + len(end)
        elif end == '"' and text[at] == "\\" or text.startswith("$$", at):
            at += 2
        elif text.startswith("${", at):
            out.append('"+(')
            at = _code(text, at + 2, out, inner=True)
            out.append(')+"')
        else:
            if text[at] == "\n":
                out.append("\n")
            at += 1
    return at
