"""Builder: which paths two wheels of one image both bring, from their RECORD files alone.

    python3 -m apertus_image.wheel.collisions SPEC OUT

Groups are installed apart, so nobody would see that two of them bring one path until it
lay in two layers. This looks at all wheels at once, without unpacking any. OUT lists the
shared paths that are in order, one a line.

Spec: {"wheels": [{"name", "version", "file", "path"}], "waivers": [...],
"groups": {name: [wheel names]}}.
"""

from __future__ import annotations

import json
import posixpath
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from installer.records import parse_record_file
from installer.utils import parse_entrypoints

from apertus_image.errors import UserError, run_builder
from apertus_image.wheel.source import NO_WHEEL
from apertus_image.wheel.waivers import Waiver, parse

__all__ = ["build", "owners", "shared_paths"]

SITE_FOLDERS = ("purelib", "platlib")
BIN = "../../../bin"

Owners = Mapping[str, Mapping[str, str]]


def build(spec: dict, out: Path) -> None:
    """Check every path that several wheels bring.

    Raises:
        UserError: different bytes without a waiver, equal bytes in two groups, or a
            waiver that nothing needs or that drops more than the kept wheel brings.
    """
    waivers = parse(spec["waivers"])
    group_of = {name: group for group, names in spec["groups"].items() for name in names}
    brought = owners(spec["wheels"])
    names = {wheel["name"] for wheel in spec["wheels"]}
    problems = list(_loose(brought, [w for w in waivers if {w.keep, *w.drop} <= names]))
    fine = []
    for path, versions in sorted(_shared(brought).items()):
        kept = {
            wheel: digest for wheel, digest in versions.items()
            if not any(w.drops(wheel, path) and w.keep in versions for w in waivers)
        }
        wheels = sorted(kept)
        if len(set(kept.values())) > 1:
            problems.append(f"{path}: different bytes in {', '.join(wheels)}")
        elif len({group_of[wheel] for wheel in kept}) > 1:
            entry = {"path": path, "keep": wheels[0], "drop": wheels[1:], "reason": "..."}
            problems.append(f"{path}: the same bytes in groups of their own: "
                            f"{', '.join(wheels)}; add {json.dumps(entry)}")
        else:
            fine.append(f"{path}: {', '.join(wheels)}")
    if problems:
        raise UserError(
            f"paths that several wheels bring: {len(problems)} faults\n  "
            + "\n  ".join(sorted(problems)),
            next_step='say whose file stays in nix/pins/waivers.json: '
            '{"path", "keep", "drop", "reason"}, or put the wheels into one group',
        )
    out.write_text("".join(line + "\n" for line in fine))


def _loose(brought: Owners, waivers: list[Waiver]) -> Iterator[str]:
    """Waivers that fit nothing, and what others would drop that the kept wheel lacks.

    Dropping goes by the pattern alone, so too wide a one loses files for good.
    """
    for waiver in waivers:
        hit = False
        for path, versions in brought.items():
            dropping = [wheel for wheel in versions if waiver.drops(wheel, path)]
            if dropping and waiver.keep in versions:
                hit = True
            elif dropping:
                yield (f"{path}: the waiver {waiver.path} would drop it from "
                       f"{', '.join(dropping)}, and {waiver.keep} does not bring it")
        if not hit:
            yield f"{waiver.path}: a waiver for {waiver.keep} that no path needs"


def shared_paths(wheels: list[dict]) -> dict[str, Mapping[str, str]]:
    """Paths (relative to site-packages) that several wheels bring: path -> wheel -> hash."""
    return _shared(owners(wheels))


def _shared(brought: Owners) -> dict[str, Mapping[str, str]]:
    return {path: found for path, found in brought.items() if len(found) > 1}


def owners(wheels: list[dict]) -> dict[str, dict[str, str]]:
    """All paths of all wheels, relative to site-packages: path -> wheel -> hash in RECORD.

    Launchers are made at installation; what they launch stands for their hash.
    """
    brought: dict[str, dict[str, str]] = defaultdict(dict)
    for wheel in wheels:
        try:
            for path, digest in _brings(wheel):
                brought[path][wheel["name"]] = digest
        except NO_WHEEL as error:
            raise UserError("not a wheel", where=wheel["file"],
                            got=f"{type(error).__name__}: {error}",
                            next_step="remove it from the store, then tools/prefetch") from error
    return brought


def _brings(wheel: dict) -> Iterator[tuple[str, str]]:
    """What one wheel brings: path, hash."""
    with zipfile.ZipFile(wheel["path"]) as archive:
        members = archive.namelist()
        records = [name for name in members if name.endswith(".dist-info/RECORD")]
        record = min(records, key=lambda name: name.count("/"), default="RECORD")
        rows = archive.read(record).decode().splitlines()
        entry_points = posixpath.join(posixpath.dirname(record), "entry_points.txt")
        text = archive.read(entry_points).decode() if entry_points in members else ""
    for row in parse_record_file(rows):
        if "__pycache__" not in row[0] and not row[0].endswith("/"):
            yield _installed(row[0], wheel["name"]), row[1]
    for name, module, attribute, _ in parse_entrypoints(text):
        yield f"{BIN}/{name}", f"launcher of {module}:{attribute}"


def _installed(member: str, wheel: str) -> str:
    """Where a member goes, relative to site-packages (binary distribution format)."""
    head, _, rest = member.partition("/")
    if not head.endswith(".data"):
        return posixpath.normpath(member)
    scheme, _, path = rest.partition("/")
    if scheme in SITE_FOLDERS:
        return posixpath.normpath(path)
    # Each wheel's headers have a folder of their own, as destination.Environment has it.
    folder = {"data": "../../..", "scripts": BIN,
              "headers": f"../../../include/site/{wheel}"}.get(scheme, f"../../../{scheme}")
    return posixpath.normpath(f"{folder}/{path}")


if __name__ == "__main__":
    run_builder(build)
