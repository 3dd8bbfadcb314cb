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
import json
import sys
import zipfile
from pathlib import Path

from apertus_image.bytecode.compile import compile_tree
from apertus_image.errors import UserError
from apertus_image.patch.data import Patch, patched, sha256
from apertus_image.tree import manifest

__all__ = ["build"]


def build(spec: dict, out: Path, manifest_file: Path) -> None:
    """Write the overlay.

    Raises:
        UserError: a patch is for another wheel, does not fit, or has a wrong hash.
    """
    wheel = spec["wheel"]
    patches = [Patch.load(Path(each["meta"]), Path(each["diff"])) for each in spec["patches"]]
    for patch in patches:
        if (patch.wheel, patch.version) != (wheel["name"], wheel["version"]):
            raise UserError("a patch is for another wheel", where=patch.name,
                            expected=f"{patch.wheel} {patch.version}",
                            got=f"{wheel['name']} {wheel['version']}")
    site = f"{spec['prefix']}/lib/python{spec['python']}/site-packages"
    with zipfile.ZipFile(wheel["path"]) as archive:
        files = patched(patches, archive.read)
    rows: dict[str, tuple[str, int]] = {}
    origins: dict[str, str] = {}
    for path, text in files.items():
        target = Path(f"{out}{site}/{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
        rows[path] = (sha256(text), len(text))
        origins[f"{site}/{path}"] = "patch:" + "+".join(p.name for p in patches if path in p.files)
    sources = [f"{site}/{path}" for path in files if path.endswith(".py")]
    for each in compile_tree(out, sources, spec["python"]):
        if each.skipped:
            raise UserError("a patched file does not compile", where=each.source, got=each.skipped)
        rows[each.path.removeprefix(f"{site}/")] = (each.sha256, each.size)
        origins[each.path] = origins[each.source]
    record = _record(Path(f"{spec['installed']}{site}"), wheel)
    Path(f"{out}{site}/{record}").parent.mkdir(parents=True, exist_ok=True)
    installed = Path(f"{spec['installed']}{site}/{record}").read_text()
    Path(f"{out}{site}/{record}").write_text(_true_again(installed, rows))
    origins[f"{site}/{record}"] = "patch:" + "+".join(patch.name for patch in patches)
    manifest.write(manifest.scan(out, "generated", origins=origins), manifest_file)


def _record(site: Path, wheel: dict) -> str:
    name = wheel["name"].replace("-", "_")
    found = [path for path in site.glob("*.dist-info")
             if path.name.lower() == f"{name}-{wheel['version']}.dist-info"]
    if len(found) != 1:
        raise UserError("a patched wheel is not installed", where=site,
                        expected=f"{name}-{wheel['version']}.dist-info")
    return f"{found[0].name}/RECORD"


def _true_again(record: str, rows: dict[str, tuple[str, int]]) -> str:
    """RECORD with the rows of what was replaced."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path, value, size in csv.reader(record.splitlines()):
        if path in rows:
            digest, length = rows.pop(path)
            encoded = base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()
            value, size = f"sha256={encoded}", str(length)
        writer.writerow((path, value, size))
    if rows:
        raise UserError("patched files are not in the wheel's RECORD", got=", ".join(sorted(rows)))
    return text.getvalue()


if __name__ == "__main__":
    try:
        build(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), Path(sys.argv[3]))
    except UserError as error:
        sys.exit(f"error: {error}")
