"""Record what nix2container gives for each case; the results lie beside this file.

    PYTHONPATH=tools:tests python tests/oci/vectors/record.py SOURCE

SOURCE is the tree of nix2container's pinned revision; `go` builds its program, and one of
two lines that prints a config blob.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cases
from support import trees

HERE = Path(__file__).parent


def programs(source: Path, folder: Path) -> tuple[Path, Path]:
    """nix2container's program and the one that prints config blobs."""
    tree = folder / "source"
    shutil.copytree(source, tree)
    subprocess.run(["chmod", "-R", "u+w", tree], check=True)
    (tree / "blob").mkdir()
    shutil.copy(HERE / "config_blob.go", tree / "blob/main.go")
    for output, package in (("nix2container", "."), ("config-blob", "./blob")):
        subprocess.run(["go", "build", "-o", folder / output, package], cwd=tree, check=True)
    return folder / "nix2container", folder / "config-blob"


def remove(folder: Path) -> None:
    if folder.exists():
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        shutil.rmtree(folder)


def layer(program: Path, folder: Path, case: dict) -> str:
    """The layers.json of a case."""
    remove(cases.STORE)
    for path, description in case["trees"].items():
        trees.make(Path(path), description)
    inputs = {"graph": cases.graph(case), "rewrites": cases.rewrites(case),
              "perms": case.get("perms", []), "history": case.get("history", {})}
    for name, content in inputs.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    subprocess.run(
        [program, "layers-from-reproducible-storepaths", folder / "layers.json",
         folder / "graph.json", *(item for name in ("rewrites", "perms", "history")
                                  for item in (f"--{name}", folder / f"{name}.json"))],
        check=True, capture_output=True)
    return (folder / "layers.json").read_text()


def image(program: Path, folder: Path, case: dict, layers: dict, blob: Path | None) -> dict:
    """The image JSON of a case, and the config blob made of it."""
    (folder / "config.json").write_text(json.dumps(case["config"]))
    files = []
    for number, name in enumerate(case["layers"]):
        files.append(folder / f"{number}.json")
        files[-1].write_text(layers[name])
    (folder / "none.json").write_text("null")
    out = folder / "image.json"
    subprocess.run(
        [program, "image", out, "--arch", case["arch"], "--created", case["created"],
         folder / "config.json", *(files or [folder / "none.json"])],
        check=True, capture_output=True)
    found = {"image": out.read_text()}
    if blob:
        text = subprocess.run([blob, out], check=True, capture_output=True).stdout
        found["config"] = text.decode()
    return found


def results(program: Path, folder: Path, blob: Path | None = None) -> dict:
    """All that is recorded; config blobs only where their program is given."""
    layers = {name: layer(program, folder, case) for name, case in cases.LAYERS.items()}
    remove(cases.STORE)
    return {"layers": layers, "images": {
        name: image(program, folder, case, layers, blob) for name, case in cases.IMAGES.items()}}


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        program, blob = programs(Path(sys.argv[1]), Path(temporary))
        recorded = results(program, Path(temporary), blob)
    (HERE / "recorded.json").write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
