"""Builder: Debian packages as a root file system.

    python3 -m apertus_image.debian.userland SPEC OUT MANIFEST

Spec: {"machine", "python", "debs": [{"name", "architecture", "path"}]}.
"""

from __future__ import annotations

from pathlib import Path

from apertus_image.bytecode.compile import compile_tree
from apertus_image.debian import effects, status
from apertus_image.debian.deb import control_files
from apertus_image.debian.unpack import Root
from apertus_image.errors import UserError, run_builder
from apertus_image.tree import manifest
from apertus_image.tree.machine import machine

__all__ = ["SCRIPTS", "build"]

SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "config")


def build(spec: dict, out: Path, manifest_file: Path, count: int | None = None) -> None:
    """Unpack the packages, bring about the declared effects, compile Python's library.

    Args:
        count: workers for bytecode, default as many as Nix allows.

    Raises:
        UserError: a package for another architecture, or one that can't be unpacked.
    """
    target = machine(spec["machine"])
    out.mkdir(parents=True, exist_ok=True)
    root = Root(out, effects.LEFT_OUT, effects.LEFT_OUT_BUT_KEPT)
    packages: dict[str, dict[str, bytes]] = {}
    skipped: list[str] = []
    # base-files first: it has the links of the merged root.
    for deb in sorted(spec["debs"], key=lambda deb: (deb["name"] != "base-files", deb["name"])):
        name, path = deb["name"], Path(deb["path"])
        if deb["architecture"] not in (target.debian, "all"):
            raise UserError("a package is for another machine", where=name,
                            expected=f"{target.debian} or all", got=deb["architecture"],
                            next_step="tools/lock userland")
        packages[name] = control_files(path)
        skipped += [f"{name}: {script}" for script in SCRIPTS if script in packages[name]]
        root.unpack(name, path)
    status.write(root, packages)
    effects.apply(root, skipped)
    library = f"usr/lib/python{spec['python']}"
    sources = [f"/{path.relative_to(out)}" for path in (out / library).rglob("*.py")
               if not path.is_symlink()]
    for each in compile_tree(out, sources, spec["python"], count):
        if each.sha256:
            root.hashes[each.path] = each.sha256
            root.origins[each.path] = root.origins.get(each.source, "generated")
    manifest.write(
        manifest.scan(out, "generated", origins=root.origins, known=root.hashes), manifest_file
    )


if __name__ == "__main__":
    run_builder(build)
