"""Builder: the lint of an image's file system.

    python3 -m apertus_image.lint.build SPEC OUT

OUT is a JSON report with what was checked; any finding stops it, all of them told.

Spec: {"machine", "glibc", "cuda": bool, "waivers": [...],
"layers": [{"name", "trees": [store paths]}]}.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from apertus_image.bytecode.compile import workers
from apertus_image.errors import UserError, run_builder
from apertus_image.lint.content import check_bytecode, check_store_paths
from apertus_image.lint.findings import Finding, Report, waivers
from apertus_image.lint.layout import check_layout
from apertus_image.lint.libraries import (
    Loader,
    Object,
    aliases,
    check_machine,
    check_needs,
    check_versions,
    inherited,
    object_in,
)
from apertus_image.lint.tags import check_tags
from apertus_image.lint.walk import Entry, walk
from apertus_image.tree.machine import Machine, machine
from apertus_image.tree.view import View

__all__ = ["build", "lint"]


CHECKS = ("layout", "machine", "needs", "versions", "store", "bytecode", "tags")


def lint(spec: dict) -> dict:
    """Run every check; give the report.

    Raises:
        UserError: an unknown machine or a wrong waiver.
    """
    target = machine(spec["machine"])
    allowed = [w for w in waivers(spec["waivers"]) if w.machine in ("", target.name)]
    view = View(Path(tree) for layer in spec["layers"] for tree in layer["trees"])
    report = Report()
    for check in CHECKS:
        report.count(check, 0)
    entries = list(walk(view.roots))
    _libraries(_look_into(entries, report), view, report, target)
    _packages(entries, view, report, target, spec["glibc"])
    checked, found = check_layout(view, target, spec["glibc"], spec["cuda"])
    report.count("layout", checked)
    report.add(found)
    return report.close(allowed, lambda path: view.kind(path) is not None)


def _look_into(entries: list[Entry], report: Report) -> list[Object]:
    """Read every file, in processes: store paths are reported, ELF files returned."""
    objects = []
    with ProcessPoolExecutor(workers()) as pool:
        for found, each in pool.map(_look, entries, chunksize=256):
            report.add(found)
            if each:
                objects.append(each)
    report.count("store", len(entries))
    return objects


def _look(entry: Entry) -> tuple[list[Finding], Object | None]:
    return list(check_store_paths(entry)), object_in(entry)


def _libraries(found: list[Object], view: View, report: Report, target: Machine) -> None:
    report.count("machine", len(found))
    for each in found:
        report.add(check_machine(each, target))
    found = [each for each in found if each.elf and each.elf.machine == target.elf_machine]
    loader, known = Loader(view, target), {}
    rpaths = inherited(found, loader)
    for each in (*found, *aliases(found, loader, rpaths)):
        report.count("needs", len(each.elf.needed))
        report.add(check_needs(each, loader, rpaths))
        report.count("versions", sum(map(len, each.elf.versions.values())))
        report.add(check_versions(each, loader, rpaths, known))


def _packages(
    entries: list[Entry], view: View, report: Report, target: Machine, glibc: str
) -> None:
    for entry in entries:
        if entry.target is not None:
            continue
        if entry.path.endswith(".pyc"):
            report.count("bytecode", 1)
            report.add(check_bytecode(view, entry.path, entry.physical))
        elif entry.path.endswith(".dist-info/WHEEL"):
            report.count("tags", 1)
            report.add(check_tags(entry.path, entry.physical, target, glibc))


def build(spec: dict, out: Path) -> None:
    """Write the report.

    Raises:
        UserError: listing every finding.
    """
    report = lint(spec)
    if found := report["findings"]:
        raise UserError(f"the image's file system has {len(found)} faults\n  "
                        + "\n  ".join(map(str, found)),
                        next_step="mend the pins, or waive one in nix/pins/lint-waivers.json")
    out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    run_builder(build)
