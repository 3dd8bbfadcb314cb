"""Compiling the Python files of a tree, several at a time, always to the same bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from apertus_image.errors import UserError

__all__ = ["Compiled", "cache_path", "compile_tree", "workers"]

ZYGOTE = Path(__file__).with_name("zygote.py")
OPTIONS = ("-S", "-B", "-P", "-W", "ignore")
# All of the surroundings: PATH is where Python looks for itself.
ENVIRONMENT = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Compiled:
    """One source's bytecode.

    Attributes:
        source: image path of the source.
        path: image path of the bytecode.
        sha256: hex digest of the bytecode, None when skipped.
        size: bytes, None when skipped.
        skipped: why there is no bytecode, None when there is.
    """

    source: str
    path: str
    sha256: str | None = None
    size: int | None = None
    skipped: str | None = None


def workers() -> int:
    """How many processes a builder may use (Nix's NIX_BUILD_CORES; 0 means all)."""
    return int(os.environ.get("NIX_BUILD_CORES") or 0) or os.cpu_count() or 1


def cache_path(source: str, python: str) -> str:
    """Where the bytecode of a source lies (PEP 3147): `a/b.py` -> `a/__pycache__/b.….pyc`."""
    path = PurePosixPath(source)
    tag = "cpython-" + python.replace(".", "")
    return str(path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc")


def compile_tree(
    root: Path, sources: Iterable[str], python: str, count: int | None = None
) -> list[Compiled]:
    """Write the bytecode of `sources` beside them.

    A source that does not compile (a template, a test of bad syntax) gets none, as with pip.

    Args:
        root: the tree on disk; image path `/a.py` lies at `root/a.py`.
        sources: image paths; they are baked in, for tracebacks.
        python: `major.minor` of the image's Python, which must be the running one.
        count: number of workers, default `workers()`. It does not change the bytes.

    Raises:
        UserError: the running Python is another one, or a compiler died.
    """
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != python:
        raise UserError("bytecode needs the image's own Python", expected=python, got=running)
    jobs = sorted(sources)
    for folder in {Path(f"{root}{cache_path(source, python)}").parent for source in jobs}:
        folder.mkdir(exist_ok=True)
    count = min(count or workers(), max(1, len(jobs)))
    with ThreadPoolExecutor(count) as pool:
        parts = pool.map(lambda n: _compile(root, jobs[n::count], python), range(count))
        results = [each for part in parts for each in part]
    # A folder made for files that all were skipped is no part of the tree.
    for folder in {Path(f"{root}{each.path}").parent for each in results if each.skipped}:
        if not any(folder.iterdir()):
            folder.rmdir()
    return sorted(results, key=lambda each: each.source)


def _compile(root: Path, sources: list[str], python: str) -> list[Compiled]:
    """Hand `sources` to one zygote, and hash what it writes while it goes on."""
    targets = [cache_path(source, python) for source in sources]
    results = []
    with tempfile.TemporaryFile() as jobs:
        for source, target in zip(sources, targets, strict=True):
            for field in (f"{root}{source}", f"{root}{target}", source):
                jobs.write(os.fsencode(field) + b"\0")
        jobs.seek(0)
        with subprocess.Popen([sys.executable, *OPTIONS, str(ZYGOTE)], env=ENVIRONMENT,
                              stdin=jobs, stdout=subprocess.PIPE) as zygote:
            for source, target in zip(sources, targets, strict=True):
                line = zygote.stdout.readline().decode()
                if not line or line.startswith("!"):
                    raise UserError("the compiler of bytecode died", where=source,
                                    got=line[1:].strip() or "it ended early",
                                    next_step="see the messages above; memory may be short")
                results.append(_told(root, source, target, line.strip()))
    return results


def _told(root: Path, source: str, target: str, skipped: str) -> Compiled:
    """One line of the zygote as a result."""
    if skipped:
        return Compiled(source, target, skipped=skipped)
    data = Path(f"{root}{target}").read_bytes()
    return Compiled(source, target, hashlib.sha256(data).hexdigest(), len(data))
