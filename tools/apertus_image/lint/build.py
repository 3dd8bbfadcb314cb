"""Builder: the lint of an image's file system.

    python3 -m apertus_image.lint.build SPEC OUT

OUT is a JSON report with what was checked; any finding stops it, all of them told.

Spec: {"machine", "glibc", "cuda": bool, "waivers": [...],
"layers": [{"name", "trees": [store paths]}]}.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from apertus_image.bytecode.compile import workers
from apertus_image.errors import UserError
from apertus_image.lint.content import check_bytecode, check_store_paths
from apertus_image.lint.findings import Finding, Report, Waiver
from apertus_image.lint.layout import check_layout
from apertus_image.lint.libraries import (
    Loader,
    check_machine,
    check_needs,
    check_versions,
    inherited,
    objects,
)
from apertus_image.lint.tags import check_tags
from apertus_image.tree.machine import machine
from apertus_image.tree.view import View

__all__ = ["build", "lint"]


def lint(spec: dict) -> dict:
    """Run every check; give the report."""
    target = machine(spec["machine"])
    view = View(Path(tree) for layer in spec["layers"] for tree in layer["trees"])
    report = Report()
    report.count("layout", 1)
    report.add(check_layout(view, target, spec["cuda"]))
    loader, known = Loader(view, target), {}
    for check in ("machine", "needs", "versions", "store", "bytecode", "tags"):
        report.count(check, 0)
    found = list(objects(view))
    rpaths = inherited(found, loader)
    for each in found:
        report.count("machine", 1)
        report.add(check_machine(each, target))
        report.count("needs", len(each.elf.needed))
        report.add(check_needs(each, loader, rpaths))
        report.count("versions", sum(map(len, each.elf.versions.values())))
        report.add(check_versions(each, loader, known))
    _contents(view, report, target, spec["glibc"])
    waivers = [Waiver(**waiver) for waiver in spec["waivers"]]
    return report.close(w for w in waivers if w.machine in ("", target.name))


def _contents(view: View, report: Report, target, glibc: str) -> None:
    files = list(view.files())
    # Hashing sources in Python and scanning in C: only the scan is worth processes.
    with ProcessPoolExecutor(workers()) as pool:
        for found in pool.map(_scan, files, chunksize=256):
            report.add(found)
    report.count("store", len(files))
    for path, physical in files:
        if path.endswith(".pyc") and "/__pycache__/" in path:
            report.count("bytecode", 1)
            report.add(check_bytecode(view, path, physical))
        elif path.endswith(".dist-info/WHEEL"):
            report.count("tags", 1)
            report.add(check_tags(path, physical, target, glibc))


def _scan(file: tuple[str, Path]) -> list[Finding]:
    return list(check_store_paths(*file))


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
    try:
        build(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
    except UserError as error:
        sys.exit(f"error: {error}")
