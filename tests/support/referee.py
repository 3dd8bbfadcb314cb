"""The real nix2container, where its source is in the store."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path

import pytest
from apertus_image.build.maker import choose, locked_source
from apertus_image.build.run import build
from apertus_image.errors import UserError
from apertus_image.store.store import Store

PROJECT = Path(__file__).parents[2]


@functools.cache
def program() -> Path:
    """nix2container's program, built by this project's toolchain; skips where it can't be."""
    store = Store()
    try:
        there = store.valid([locked_source(PROJECT)[0]])
    except UserError as error:
        pytest.skip(f"not run: {error.what}")
    if not there:
        pytest.skip("not run: nix2container's source is not here")
    maker = choose(PROJECT, store, "nix2container")
    path = build(PROJECT, "nix2container", store, maker, link=None)
    return store.physical(str(path)) / "bin/nix2container"


def layers(
    folder: Path, paths: list[Path], perms: list[dict] | None = None, history: dict | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the layers command as buildLayer does; the result lands in folder/upstream.json."""
    files = {
        "graph": [{"path": str(path), "references": []} for path in sorted(paths)],
        "rewrites": [{"path": str(p), "regex": f"^{p}", "repl": ""} for p in paths],
        "perms": perms or [],
        "history": history or {},
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return subprocess.run(
        [program(), "layers-from-reproducible-storepaths", folder / "upstream.json",
         folder / "graph.json", "--max-layers", "1", "--rewrites", folder / "rewrites.json",
         "--perms", folder / "perms.json", "--history", folder / "history.json"],
        capture_output=True, text=True,
    )


def ours(paths: list[Path], perms: list[dict] | None = None, history: dict | None = None) -> dict:
    """The same as a spec of the emitter's, with its graph."""
    return {
        "rewrites": [{"path": str(p), "regex": f"^{p}", "repl": ""} for p in paths],
        "perms": perms or [], "history": history or {}, "layers": [],
    }
