"""One dependency that a checkout asks for, whoever says so."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GIT", "INDEX", "LOCAL", "URL", "Wanted"]

INDEX, GIT, URL, LOCAL = "index", "git", "url", "local"


@dataclass(frozen=True)
class Wanted:
    """A dependency.

    Attributes:
        name: normalised (PEP 503).
        version: exactly this one, where a lock says so; else empty.
        specifier: what pyproject.toml allows, `>=2,<3`; empty for all, or where a lock decides.
        source: `index`, `git`, `url` (a file of that address or path), `local` (a folder).
        place: the URL with its commit, or the folder relative to the checkout.
        files: names of its wheels, where a lock lists them.
        built: whether it has no wheel at all, only its source.
    """

    name: str
    version: str = ""
    specifier: str = ""
    source: str = INDEX
    place: str = ""
    files: tuple[str, ...] = ()
    built: bool = False

    def __str__(self) -> str:
        text = f"=={self.version}" if self.version else self.specifier or "any version"
        return f"{text}, {self.source} {self.place}" if self.place else text
