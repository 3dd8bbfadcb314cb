"""Builder: the overlay, the patched files of a wheel and nothing else.

    python3 -m apertus_image.patch.build SPEC OUT MANIFEST

It lies above the pristine wheel in a small layer of its own, so that an edit to a patch
moves kilobytes. A source and its bytecode are replaced together, or the old code would
go on running (trap 14), and RECORD says what is there then.

Spec: {"prefix", "python", "wheel": {"name", "version", "file", "path"},
"installed": tree that the wheel is installed in, "patches": [{"name", "diff", "meta"}]}.
"""

from __future__ import annotations

import base64
import csv
import io
import zipfile
from pathlib import Path

from packaging.utils import canonicalize_name

from apertus_image.bytecode.compile import compile_tree
from apertus_image.errors import UserError, run_builder
from apertus_image.patch.data import Patch, patched, sha256
from apertus_image.tree import manifest

__all__ = ["build"]


def build(spec: dict, out: Path, manifest_file: Path) -> None:
    """Write the overlay.

    Raises:
        UserError: a patch is for another wheel, does not fit, or has a wrong hash.
    """
    wheel = spec["wheel"]
    patches = _patches(spec)
    site = f"{spec['prefix']}/lib/python{spec['python']}/site-packages"
    installed = Path(f"{spec['installed']}{site}")
    record = _record(installed, wheel)
    files = _files(patches, wheel, installed)
    rows: dict[str, tuple[str, int] | None] = {}
    origins: dict[str, str] = {}
    for path, data in files.items():
        target = Path(f"{out}{site}/{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        rows[path] = (sha256(data), len(data))
        origins[f"{site}/{path}"] = "patch:" + "+".join(p.name for p in patches if path in p.files)
    sources = [f"{site}/{path}" for path in files if path.endswith(".py")]
    for each in compile_tree(out, sources, spec["python"]):
        if each.skipped:
            raise UserError("a patched file does not compile", where=each.source, got=each.skipped)
        rows[each.path.removeprefix(f"{site}/")] = None
        origins[each.path] = origins[each.source]
    target = Path(f"{out}{site}/{record}")
    target.parent.mkdir(parents=True, exist_ok=True)
    text = _true_again((installed / record).read_text(encoding="utf-8"), rows)
    target.write_text(text, encoding="utf-8")
    origins[f"{site}/{record}"] = "patch:" + "+".join(patch.name for patch in patches)
    manifest.write(manifest.scan(out, "generated", origins=origins), manifest_file)


def _patches(spec: dict) -> list[Patch]:
    """The patches, each seen to be the one meant and for this wheel."""
    wheel = spec["wheel"]
    patches = []
    for each in spec["patches"]:
        patch = Patch.load(Path(each["meta"]), Path(each["diff"]))
        if patch.name != each["name"]:
            raise UserError("a patch has another name than its folder", where=each["meta"],
                            expected=each["name"], got=patch.name)
        if (patch.wheel, patch.version) != (wheel["name"], wheel["version"]):
            raise UserError("a patch is for another wheel", where=patch.name,
                            expected=f"{patch.wheel} {patch.version}",
                            got=f"{wheel['name']} {wheel['version']}")
        patches.append(patch)
    return patches


def _files(patches: list[Patch], wheel: dict, installed: Path) -> dict[str, bytes]:
    """The patched files; what they will lie above is seen to be what was patched."""
    with zipfile.ZipFile(wheel["path"]) as archive:
        files = patched(patches, archive.read)
        for path in files:
            # Another wheel's file may have been kept in its place: it would be covered up.
            file = installed / path
            if not file.is_file() or file.read_bytes() != archive.read(path):
                raise UserError("the installed file is not the wheel's", where=file,
                                expected=f"the bytes of {wheel['file']}",
                                next_step="see nix/pins/waivers.json for that path")
    return files


def _record(site: Path, wheel: dict) -> str:
    """Where, in site-packages, the wheel's RECORD is; a wheel spells its name as it likes."""
    found = []
    for path in site.glob("*.dist-info"):
        name, _, version = path.name.removesuffix(".dist-info").rpartition("-")
        if (canonicalize_name(name), version) == (wheel["name"], wheel["version"]):
            found.append(path)
    if len(found) != 1:
        raise UserError("a patched wheel is not installed", where=site,
                        expected=f"{wheel['name']}-{wheel['version']}.dist-info",
                        got=", ".join(path.name for path in found) or "none")
    return f"{found[0].name}/RECORD"


def _true_again(record: str, rows: dict[str, tuple[str, int] | None]) -> str:
    """RECORD with the rows of what was replaced; bytecode's row is bare and stays so."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path, value, size in csv.reader(record.splitlines()):
        if path in rows and (new := rows.pop(path)):
            digest, length = new
            encoded = base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()
            value, size = f"sha256={encoded}", str(length)
        writer.writerow((path, value, size))
    if rows:
        raise UserError("patched files are not in the wheel's RECORD", got=", ".join(sorted(rows)))
    return text.getvalue()


if __name__ == "__main__":
    run_builder(build)
