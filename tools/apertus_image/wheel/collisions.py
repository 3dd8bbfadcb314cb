"""Builder: which paths two wheels of one image both bring, from their RECORD files alone.

    python3 -m apertus_image.wheel.collisions SPEC OUT

Groups are installed apart, so nobody would see that two of them bring one path until it
lay in two layers. This looks at all wheels at once, without unpacking any. OUT lists the
shared paths that are in order, one a line.

Spec: {"wheels": [{"name", "version", "file", "path"}], "waivers": [...],
"groups": {name: [wheel names]}}.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections import defaultdict
from pathlib import Path

from installer.records import parse_record_file

from apertus_image.errors import UserError, run_builder
from apertus_image.wheel.waivers import Waiver, parse

__all__ = ["build", "shared_paths"]

SITE_FOLDERS = ("purelib", "platlib")


def build(spec: dict, out: Path) -> None:
    """Check every path that several wheels bring.

    Raises:
        UserError: different bytes without a waiver, equal bytes in two groups, or a
            waiver that nothing needs.
    """
    waivers = parse(spec["waivers"])
    group_of = {name: group for group, names in spec["groups"].items() for name in names}
    unused = set(waivers)
    problems, fine = [], []
    for path, versions in sorted(shared_paths(spec["wheels"]).items()):
        kept = {}
        for wheel, digest in versions.items():
            applied = [w for w in waivers if w.drops(wheel, path) and w.keep in versions]
            unused -= set(applied)
            if not applied:
                kept[wheel] = digest
        wheels = ", ".join(sorted(kept))
        if len(set(kept.values())) > 1:
            problems.append(f"{path}: different bytes in {wheels}")
        elif len({group_of[wheel] for wheel in kept}) > 1:
            problems.append(f"{path}: the same bytes in groups of their own: {wheels}")
        else:
            fine.append(f"{path}: {wheels}")
    names = {wheel["name"] for wheel in spec["wheels"]}
    problems += [_unneeded(waiver) for waiver in unused
                 if {waiver.keep, *waiver.drop} <= names]
    if problems:
        raise UserError(
            f"paths that several wheels bring: {len(problems)} faults\n  "
            + "\n  ".join(sorted(problems)),
            next_step='say whose file stays in nix/pins/waivers.json: '
            '{"path", "keep", "drop", "reason"}, or put the wheels into one group',
        )
    out.write_text("".join(line + "\n" for line in fine))


def _unneeded(waiver: Waiver) -> str:
    return f"{waiver.path}: a waiver for {waiver.keep} that no path needs"


def shared_paths(wheels: list[dict]) -> dict[str, dict[str, str]]:
    """Paths (relative to site-packages) that several wheels bring: path -> wheel -> hash."""
    owners: dict[str, dict[str, str]] = defaultdict(dict)
    for wheel in wheels:
        with zipfile.ZipFile(wheel["path"]) as archive:
            records = [n for n in archive.namelist() if n.endswith(".dist-info/RECORD")]
            member = min(records, key=lambda name: name.count("/"))
            rows = archive.read(member).decode().splitlines()
        for row in parse_record_file(rows):
            if "__pycache__" not in row[0] and not row[0].endswith("/"):
                owners[_installed(row[0], wheel["name"])][wheel["name"]] = row[1]
    return {path: found for path, found in owners.items() if len(found) > 1}


def _installed(member: str, wheel: str) -> str:
    """Where a member goes, relative to site-packages (binary distribution format)."""
    head, _, rest = member.partition("/")
    if not head.endswith(".data"):
        return posixpath.normpath(member)
    scheme, _, path = rest.partition("/")
    if scheme in SITE_FOLDERS:
        return posixpath.normpath(path)
    # Each wheel's headers have a folder of their own, as destination.Environment has it.
    folder = {"data": "../../..", "scripts": "../../../bin",
              "headers": f"../../../include/site/{wheel}"}.get(scheme, f"../../../{scheme}")
    return posixpath.normpath(f"{folder}/{path}")


if __name__ == "__main__":
    run_builder(build)
