"""What an audit found, and what it means: changes of pins, layers, artefacts, and the exit code.

The JSON form is documented in docs/audit.md; schema apertus-image/audit/1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["ADDED", "DEPENDENCY", "GROUPS", "MAY", "OVERLAY", "REMOVED", "SAME", "SCHEMA", "WILL",
           "Change", "Difference", "LayerChange", "Report"]

SCHEMA = "apertus-image/audit/1"

# Of a layer; the first four are in the order of how much is said.
SAME, MAY, WILL, ADDED, REMOVED = "same", "may change", "changes", "added", "removed"
DEPENDENCY, OVERLAY = "dependency", "overlay"

# Group -> heading, in the order in which they are shown.
GROUPS = {
    "input": "flake inputs", "wheel": "wheels", "userland": "userland packages",
    "toolchain": "toolchain", "requirements": "requirements", "patch": "patches",
    "waiver": "waivers", "lock": "locks", "config": "image config", "record": "record",
    "code": "code of the build",
}


@dataclass(frozen=True)
class Change:
    """One thing that differs.

    Attributes:
        group: of GROUPS.
        kind: `added`, `removed`, `moved`, `hash changed` or `changed`.
        name: of the input, pin, patch or file; an input's is its path from the root.
        old, new: what it was and is; empty where it was or is not there.
        where: the locks or machines it is in.
        notes: what a reader must know beside it.
        stop: whether it must stop a release.
        next_step: what to do about it.
    """

    group: str
    kind: str
    name: str
    old: str = ""
    new: str = ""
    where: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stop: bool = False
    next_step: str = ""


@dataclass(frozen=True)
class LayerChange:
    """One layer, old beside new.

    Attributes:
        name: as the image's description has it.
        part: DEPENDENCY, or OVERLAY for the overlay of patches and the user's own code.
        state: SAME, MAY, WILL, ADDED or REMOVED.
        why: half a sentence.
        old, new: (digest, bytes of the tar), where known.
        estimate: bytes (old, new) for the map where no image is known: of the pinned files.
    """

    name: str
    part: str
    state: str
    why: str = ""
    old: tuple[str, int] | None = None
    new: tuple[str, int] | None = None
    estimate: tuple[int, int] = (0, 0)

    def bytes(self, side: int) -> int:
        """Size on one side, 0 old or 1 new; 0 where the layer is not there."""
        if self.state == (ADDED, REMOVED)[side]:
            return 0
        known = (self.old, self.new)[side]
        return known[1] if known else self.estimate[side]

    def known(self, side: int) -> bool:
        """Whether that size is a built layer's, not an estimate."""
        return (self.old, self.new)[side] is not None


@dataclass(frozen=True)
class Difference:
    """The first entry that differs in two artefacts.

    Attributes:
        layer: its name or digest; empty for a SquashFS.
        entry: path in the image.
        field: presence, type, mode, owner, size, target or content.
        old, new: its values.
        count: entries that differ in that layer or tree.
        text: a unified diff where both are text, cut.
    """

    layer: str
    entry: str
    field: str
    old: str
    new: str
    count: int
    text: str = ""


@dataclass
class Report:
    """All of one audit.

    Attributes:
        old, new: what was compared, as named, and of which kind.
        image: name of the image that layers are of.
        basis: `predicted`, `built` or `recorded`; empty where no layers were looked at.
        proven: with --build, whether the prediction was true; None without.
        difference: the first entry that differs, of two artefacts.
        image_ids: old and new, where known.
        least: of the exit code, where no layer says it.
    """

    old: Mapping[str, str]
    new: Mapping[str, str]
    image: str = ""
    basis: str = ""
    changes: list[Change] = field(default_factory=list)
    layers: list[LayerChange] = field(default_factory=list)
    difference: Difference | None = None
    notes: list[str] = field(default_factory=list)
    proven: bool | None = None
    image_ids: tuple[str, str] = ("", "")
    least: int = 0

    def add(self, changes: Iterable[Change]) -> None:
        self.changes += changes

    @property
    def stops(self) -> list[Change]:
        """What must stop a release, the loudest first."""
        return sorted((each for each in self.changes if each.stop),
                      key=lambda each: each.kind != "hash changed")

    @property
    def exit_code(self) -> int:
        """0 the same image, 10 only the overlay, application or config, 20 dependencies, 1 stop."""
        if self.stops or self.proven is False:
            return 1
        moved = {each.part for each in self.layers if each.state != SAME}
        ids = set(filter(None, self.image_ids))
        config = any(each.group == "config" for each in self.changes) or len(ids) > 1
        found = 20 if DEPENDENCY in moved else 10 if moved or config or self.difference else 0
        return max(found, self.least)

    @property
    def verdict(self) -> str:
        """The exit code in words."""
        may = any(each.state == MAY for each in self.layers)
        moved = [each for each in self.layers if each.state != SAME]
        return {
            0: "the same image",
            1: "stop: this must not be released" if self.stops else
               "the prediction was wrong: this is a fault of tools/audit, report it",
            10: "only the overlay or the application changes" if moved else
                "no layer changes, only the image's config" if not self.difference else
                "the content differs",
            20: "dependency layers may have to be built again" if may and not any(
                each.part == DEPENDENCY and each.state != MAY for each in moved)
                else "dependency layers are built again",
        }[self.exit_code]

    def json(self) -> dict[str, Any]:
        """As documented."""
        return {
            "schema": SCHEMA, "old": dict(self.old), "new": dict(self.new),
            "exit_code": self.exit_code, "verdict": self.verdict, "image": self.image,
            "basis": self.basis, "proven": self.proven, "image_ids": list(self.image_ids),
            "changes": [{**asdict(each), "where": list(each.where), "notes": list(each.notes)}
                        for each in self.changes],
            "layers": [{"name": each.name, "part": each.part, "state": each.state, "why": each.why,
                        **{side: known and {"digest": known[0], "size": known[1]}
                           for side, known in (("old", each.old), ("new", each.new))}}
                       for each in self.layers],
            "difference": self.difference and asdict(self.difference), "notes": list(self.notes),
        }
