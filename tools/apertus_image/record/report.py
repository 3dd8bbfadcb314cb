"""What a check found, item by item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from apertus_image.errors import UserError

__all__ = ["DIFFERS", "SAME", "UNCHECKED", "Item", "Report"]

T = TypeVar("T")
SAME, DIFFERS, UNCHECKED = "same", "differs", "not checked"


@dataclass(frozen=True)
class Item:
    """One thing that was, or was not, recomputed.

    Attributes:
        what: what it is of.
        standing: SAME, DIFFERS or UNCHECKED.
        where: the file, where it differs.
        expected, got: where it differs.
        why: why it was not checked, or what it rests on.
    """

    what: str
    standing: str
    where: str = ""
    expected: str = ""
    got: str = ""
    why: str = ""

    def json(self) -> dict[str, str]:
        return {key: value for key, value in vars(self).items() if value}


@dataclass
class Report:
    """All items of one artefact, in the order they were looked at."""

    artefact: str
    mode: str
    items: list[Item] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return any(item.standing == DIFFERS for item in self.items)

    def compare(self, what: str, expected: object, got: object, where: object = "",
                why: str = "") -> bool:
        """Note whether two values are the same."""
        if expected == got:
            self.items.append(Item(what, SAME, why=why))
            return True
        self.items.append(Item(what, DIFFERS, str(where), str(expected), str(got), why))
        return False

    def unchecked(self, what: str, why: str) -> None:
        self.items.append(Item(what, UNCHECKED, why=why))

    def attempt(self, what: str, make: Callable[[], T], *, where: object = "",
                tell: bool = True) -> T | None:
        """What `make` gives; a UserError is noted as a difference, and None given.

        Args:
            where: the file, for errors of several faults, each of which has its own.
            tell: whether success is noted too.
        """
        try:
            made = make()
        except UserError as error:
            self.items.append(Item(what, DIFFERS, str(error.where or where),
                                   str(error.expected or ""), str(error.got or ""), error.what))
            return None
        if tell:
            self.items.append(Item(what, SAME))
        return made

    def json(self) -> dict[str, Any]:
        return {"artefact": self.artefact, "mode": self.mode,
                "standing": DIFFERS if self.differs else SAME,
                "items": [item.json() for item in self.items]}
