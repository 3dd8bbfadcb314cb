"""Which trees of an image will have other content, told from their derivations alone.

That a derivation changed does not say that its content did: a wheel of Python files moves the
derivation of the loader's cache, and the cache stays as it is. So what each builder is told is
compared as that builder uses it. SAME and WILL are promises; where only a build could tell, it
is MAY.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from apertus_image.audit.derivations import Derivation, Plan
from apertus_image.audit.loader import Libraries
from apertus_image.audit.report import MAY, SAME, WILL
from apertus_image.patch.data import describe

__all__ = ["Foreteller"]

Told = tuple[str, str]
"""A state, and why."""

STATES = (SAME, MAY, WILL)
FEW = 3
OF_PINS = ("debian.userland", "wheel.build")


def worst(found: Iterable[Told]) -> Told:
    """The state that says most."""
    return max(found, key=lambda each: STATES.index(each[0]), default=(SAME, ""))


class Foreteller:
    """Compares the trees of two plans.

    Args:
        libraries: what the pinned files bring for the loader, where they are in the store.
    """

    def __init__(self, old: Plan, new: Plan, libraries: Libraries) -> None:
        self._old, self._new, self._libraries = old, new, libraries
        self._known: dict[tuple[str, str], Told] = {}

    def tree(self, old: Derivation, new: Derivation) -> Told:
        """Whether a tree's content changes."""
        key = old.out, new.out
        if key not in self._known:
            self._known[key] = self._tree(old, new)
        return self._known[key]

    def _tree(self, old: Derivation, new: Derivation) -> Told:
        if old.out == new.out:
            return SAME, ""
        rule = RULES.get(new.module)
        if rule is None or old.module != new.module:
            return MAY, "it is made in another way"
        found = rule(self, old, new)
        if found[0] != WILL and old.program != new.program:
            return MAY, _program(old, new)
        return found

    def _userland(self, old: Derivation, new: Derivation) -> Told:
        return worst([self._pins(old.spec["debs"], new.spec["debs"], "package"),
                      _rest(old, new, "debs")])

    def _wheels(self, old: Derivation, new: Derivation) -> Told:
        waivers = "waivers", "record_waivers"
        # A waiver's reason is for readers; the builder never sees to it.
        told = [[{key: value for key, value in each.items() if key != "reason"}
                 for field in waivers for each in one.spec.get(field, [])] for one in (old, new)]
        return worst([self._pins(old.spec["wheels"], new.spec["wheels"], "wheel"),
                      (SAME, "") if told[0] == told[1] else (MAY, "its waivers changed"),
                      _rest(old, new, "wheels", *waivers)])

    def _environment(self, old: Derivation, new: Derivation) -> Told:
        if old.spec.get("files") != new.spec.get("files"):
            return WILL, "the environment's own files changed"
        return _rest(old, new, "files")

    def _loader(self, old: Derivation, new: Derivation) -> Told:
        field = "roots" if "roots" in new.spec else "trees"
        return worst([self._inside(old.spec[field], new.spec[field], self._libraries.cache
                                   if field == "roots" else self._libraries.toolkit),
                      _rest(old, new, field)])

    def _overlay(self, old: Derivation, new: Derivation) -> Told:
        found = [_rest(old, new, "patches", "wheel", "installed")]
        before, after = old.spec["wheel"], new.spec["wheel"]
        if before["sha256"] != after["sha256"]:
            found.append((WILL if before["version"] != after["version"] else MAY,
                          f"{after['name']} is another"))
        was = _patched(self._old, old.spec["patches"])
        now = _patched(self._new, new.spec["patches"])
        if was != now:
            names = [name for name in {**was[1], **now[1]} if was[1].get(name) != now[1].get(name)]
            found.append((WILL, f"patched files change: {_few(names)}" if names
                          else "patches are in another order"))
        one, other = (self._by_out(out) for out in (old.spec["installed"], new.spec["installed"]))
        if one.program != other.program:
            found.append((MAY, "the wheel below is installed in another way"))
        return worst(found)

    def _identity(self, old: Derivation, new: Derivation) -> Told:
        """It hashes all other manifests, so it changes when anything does."""
        was, now = (_manifests(one) for one in (old, new))
        if list(was) != list(now):
            return WILL, "the image's identity: its trees are others"
        found = worst(self.tree(self._by_out(was[name]), self._by_out(now[name])) for name in now)
        return found[0], "the image's identity" if found[0] != SAME else ""

    def _application(self, old: Derivation, new: Derivation) -> Told:
        return MAY, "the application's source is another"

    def _by_out(self, out: str) -> Derivation:
        return self._new.by_out.get(out) or self._old.by_out[out]

    def _pins(self, old: list[dict], new: list[dict], what: str) -> Told:
        """Lists of entries of locks, each with the path of its file."""
        before, after = ({each["name"]: each for each in one} for one in (old, new))
        moved = [name for name in {**before, **after}
                 if (before.get(name) or {}).get("version")
                 != (after.get(name) or {}).get("version")]
        if moved:
            return WILL, f"{_count(moved, what)} changed: {_few(moved)}"
        # Its own version lies in the tree; of equal versions only the bytes could tell.
        other = [name for name in after if before[name]["sha256"] != after[name]["sha256"]]
        if other:
            return MAY, f"other bytes at one version: {_few(other)}"
        if [each["path"] for each in old] != [each["path"] for each in new]:
            return MAY, "the order changed"
        return SAME, ""

    def _inside(self, old: list[str], new: list[str],
                of: Callable[[Mapping[str, Any]], object]) -> Told:
        """Trees that are searched for libraries: only what files bring of them counts."""
        packages: list[dict[str, dict]] = []
        others: list[dict[str, Derivation]] = []
        programs = []
        for paths in (old, new):
            trees = [self._by_out(path) for path in paths]
            pinned = [each for each in trees if each.module in OF_PINS]
            packages.append({pin["sha256"]: pin for each in pinned
                             for pin in each.spec.get("debs", []) + each.spec.get("wheels", [])})
            others.append({each.env["name"]: each for each in trees if each.module not in OF_PINS})
            programs.append({each.program for each in pinned})
        found = [self.tree(others[0][name], others[1][name]) if name in others[0]
                 and name in others[1] else (MAY, f"{name} came or went")
                 for name in {**others[0], **others[1]}]
        if programs[0] != programs[1]:
            found.append((MAY, "what it looks into is made by other code"))
        gone, come = ([pin for sha256, pin in packages[side].items()
                       if sha256 not in packages[1 - side]] for side in (0, 1))
        sides = [[of(pin) for pin in each] for each in (gone, come)]
        if None in sides[0] + sides[1]:
            found.append((MAY, "a changed package is not in the store to be looked into"))
        elif set().union(*sides[0]) != set().union(*sides[1]):
            found.append((MAY, "libraries changed"))
        return worst(found)


def _patched(plan: Plan, patches: list[dict]) -> tuple[list[str], dict[str, object]]:
    """What a plan's patches leave behind: names in order, name -> file -> hash after."""
    folders = {file.parent.name: file
               for file in plan.project.glob("nix/patches/*/*/patch.json")}
    names = [each["name"] for each in patches]
    return names, {name: {path: hashes["after"] for path, hashes
                          in describe(folders[name])["files"].items()} for name in names}


def _manifests(identity: Derivation) -> dict[str, str]:
    """Name of a tree -> its output, in order: a manifest lies in its tree, under its name."""
    found = {}
    for path in identity.spec["manifests"]:
        parts = path.split("/")
        found[parts[-1]] = "/".join(parts[:4])
    return found


def _rest(old: Derivation, new: Derivation, *but: str) -> Told:
    """What else the builder is told."""
    fields = [key for key in sorted({*old.spec, *new.spec} - set(but))
              if old.spec.get(key) != new.spec.get(key)]
    return (MAY, f"it is told another {', '.join(fields)}") if fields else (SAME, "")


def _program(old: Derivation, new: Derivation) -> str:
    before, after = (dict(one.program[1]) for one in (old, new))
    if before.get("builder") != after.get("builder"):
        return "the toolchain that makes it changed"
    if before.get("PYTHONPATH") != after.get("PYTHONPATH"):
        return "the code that makes it changed"
    return "it is made in another way"


def _few(names: list[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")


def _count(names: list[str], what: str) -> str:
    return f"{len(names)} {what}{'s' if len(names) > 1 else ''}"


RULES: dict[str, Callable[[Foreteller, Derivation, Derivation], Told]] = {
    "debian.userland": Foreteller._userland, "wheel.build": Foreteller._wheels,
    "wheel.environment": Foreteller._environment, "elf.ldcache": Foreteller._loader,
    "elf.cuda": Foreteller._loader, "patch.build": Foreteller._overlay,
    "image.identity": Foreteller._identity, "application.build": Foreteller._application,
}
