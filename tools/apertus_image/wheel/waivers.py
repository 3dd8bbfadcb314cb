"""Waivers: which of two wheels may bring a path that both bring with different bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

__all__ = ["Waiver", "dropped", "parse"]


@dataclass(frozen=True)
class Waiver:
    """One narrow exception, as nix/pins/waivers.json has it.

    Attributes:
        path: pattern of paths relative to site-packages; `*` crosses folders.
        keep: the wheel whose file stays.
        drop: the wheels whose file is left out.
        reason: why that is right.
    """

    path: str
    keep: str
    drop: tuple[str, ...]
    reason: str

    def drops(self, wheel: str, path: str) -> bool:
        """Whether this wheel's file at this path is left out."""
        return wheel in self.drop and fnmatchcase(path, self.path)


def parse(items: Iterable[Mapping]) -> list[Waiver]:
    """Waivers from JSON."""
    return [Waiver(i["path"], i["keep"], tuple(i["drop"]), i["reason"]) for i in items]


def dropped(waivers: Iterable[Waiver], wheel: str, path: str) -> bool:
    """Whether some waiver leaves this wheel's file out."""
    return any(waiver.drops(wheel, path) for waiver in waivers)
