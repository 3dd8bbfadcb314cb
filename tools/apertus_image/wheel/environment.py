"""Builder: what makes a folder of packages an environment: interpreter and pyvenv.cfg.

    python3 -m apertus_image.wheel.environment SPEC OUT MANIFEST

A true virtual environment (PEP 405): its site-packages is a site directory, so `.pth`
files in it work, in nested interpreters too (case 37).

Spec: {"prefix", "python", "files"?: {path relative to site-packages: text}}.
"""

from __future__ import annotations

from pathlib import Path

from apertus_image.bytecode.compile import compile_tree
from apertus_image.errors import run_builder
from apertus_image.tree import manifest
from apertus_image.wheel.destination import Environment

__all__ = ["build"]


def build(spec: dict, out: Path, manifest_file: Path) -> None:
    """Write the environment's own files.

    Raises:
        UserError: the running Python is not the image's, so bytecode can't be made.
    """
    environment = Environment(spec["prefix"], spec["python"])
    root = Path(f"{out}{environment.prefix}")
    (root / "bin").mkdir(parents=True)
    system = f"/usr/bin/python{environment.python}"
    (root / "bin/python").symlink_to(system)
    for name in ("python3", f"python{environment.python}"):
        (root / "bin" / name).symlink_to("python")
    (root / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\n"
        f"version = {environment.python}\nexecutable = {system}\n"
    )
    site = Path(f"{out}{environment.site_packages}")
    site.mkdir(parents=True)
    for name, text in spec.get("files", {}).items():
        (site / name).write_text(text)
    added = (name for name in spec.get("files", {}) if name.endswith(".py"))
    sources = [f"{environment.site_packages}/{name}" for name in added]
    compile_tree(out, sources, environment.python)
    manifest.write(manifest.scan(out, "generated"), manifest_file)


if __name__ == "__main__":
    run_builder(build)
