"""Builder: a group of wheels installed into the environment's tree.

    python3 -m apertus_image.wheel.build SPEC OUT MANIFEST

Spec: {"prefix", "python", "machine", "wheels": [{"name", "version", "file", "path"}],
"waivers": [...], "record_waivers": [{"wheel", "member", "sha256", "reason"}]}.
"""

from __future__ import annotations

import base64
import csv
import io
import posixpath
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import installer

from apertus_image.bytecode.compile import Compiled, compile_tree, workers
from apertus_image.errors import UserError, run_builder
from apertus_image.tree import manifest
from apertus_image.wheel.destination import Environment, GroupTree, WheelIntoTree
from apertus_image.wheel.source import WheelPin, open_wheel
from apertus_image.wheel.waivers import parse

__all__ = ["build", "record_rows"]


def build(spec: dict, out: Path, manifest_file: Path, count: int | None = None) -> None:
    """Install the wheels, compile their bytecode, and write their RECORD files true.

    Args:
        count: workers, default as many as Nix allows. It does not change the bytes.

    Raises:
        UserError: listing every fault of every wheel, or every collision.
    """
    environment = Environment(spec["prefix"], spec["python"])
    pins = [WheelPin(w["name"], w["version"], w["file"], Path(w["path"])) for w in spec["wheels"]]
    tree = GroupTree(out, environment, parse(spec.get("waivers", [])))
    out.mkdir(parents=True, exist_ok=True)
    wrong = [(w["wheel"], w["member"], w["sha256"]) for w in spec.get("record_waivers", [])]
    with ThreadPoolExecutor(count or workers()) as pool:
        done = list(pool.map(lambda pin: _install(pin, tree, spec["machine"], wrong),
                             sorted(pins, key=lambda pin: -pin.path.stat().st_size)))
    _stop("wheels are not what they say", [p for _, problems in done for p in problems],
          "tools/lock wheels, or another version in nix/pins/requirements.in")
    _stop("wheels bring different bytes for one path", tree.collisions(),
          "a narrow waiver in nix/pins/waivers.json, saying whose file stays")
    site = environment.site_packages + "/"
    sources = [path for path in tree.files if path.startswith(site) and path.endswith(".py")]
    compiled = {each.source: each for each in compile_tree(out, sources, spec["python"], count)}
    for each in compiled.values():
        if each.skipped:
            print(f"no bytecode for {each.source}: {each.skipped}", file=sys.stderr)
    known = {path: versions[0].sha256 for path, versions in tree.files.items()}
    # Where several wheels bring the same bytes, the first by name is said to have.
    origins = {path: "wheel:" + min(w.wheel for w in versions)
               for path, versions in tree.files.items()}
    for destination, _ in done:
        _write_record(destination, tree, compiled, known, origins)
    known |= {each.path: each.sha256 for each in compiled.values() if each.sha256}
    origins |= {each.path: origins[each.source] for each in compiled.values()}
    manifest.write(manifest.scan(out, "generated", origins=origins, known=known), manifest_file)


def _install(
    pin: WheelPin, tree: GroupTree, machine: str, wrong: list[tuple[str, str, str]]
) -> tuple[WheelIntoTree, list[str]]:
    destination = WheelIntoTree(tree, pin.name)
    known_wrong = [(member, sha256) for wheel, member, sha256 in wrong if wheel == pin.name]
    with open_wheel(pin, machine, known_wrong) as wheel:
        installer.install(wheel, destination, {"INSTALLER": b"apertus-image\n"})
        return destination, wheel.problems


def _stop(what: str, problems: list[str], next_step: str) -> None:
    if problems:
        raise UserError(f"{what}: {len(problems)} faults\n  " + "\n  ".join(sorted(problems)),
                        next_step=next_step)


def _write_record(
    destination: WheelIntoTree,
    tree: GroupTree,
    compiled: dict[str, Compiled],
    known: dict[str, str],
    origins: dict[str, str],
) -> None:
    """Write one wheel's RECORD: what is there of it, bytecode included (case 36)."""
    entries: list[tuple[str, str | None, int | None]] = []
    for path in destination.paths:
        written = next(w for w in tree.files[path] if w.wheel == destination.wheel)
        entries.append((path, written.sha256, written.size))
        each = compiled.get(path)
        if each and each.sha256:
            # Bare, as pip's own rows of bytecode: the lint proves it by its source's hash,
            # and an edit to a patch sends a RECORD that is an eighth smaller.
            entries.append((each.path, None, None))
    text = record_rows(entries, destination.record, tree.environment)
    target = Path(f"{tree.root}{destination.record}")
    target.write_text(text, encoding="utf-8", newline="\n")
    origins[destination.record] = f"wheel:{destination.wheel}"


def record_rows(
    entries: list[tuple[str, str | None, int | None]], record: str, environment: Environment
) -> str:
    """RECORD's text: rows sorted by path, relative to site-packages, its own row bare.

    Args:
        entries: (image path, SHA-256 as hex, size); None for both leaves the row bare.
        record: image path of RECORD itself.

    Source: "Recording installed projects", packaging.python.org.
    """
    rows = []
    for path, sha256, size in entries:
        relative = posixpath.relpath(path, environment.site_packages)
        if sha256 is None:
            rows.append((relative, "", ""))
            continue
        value = base64.urlsafe_b64encode(bytes.fromhex(sha256)).rstrip(b"=").decode()
        rows.append((relative, f"sha256={value}", str(size)))
    rows.append((posixpath.relpath(record, environment.site_packages), "", ""))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(sorted(set(rows)))
    return text.getvalue()


if __name__ == "__main__":
    run_builder(build)
