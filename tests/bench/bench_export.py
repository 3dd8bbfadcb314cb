"""How long an export takes, beside bare mksquashfs on the unpacked tree, in one run.

    python tests/bench/bench_export.py [IMAGE.json] [--folder DIR] [--rounds 1]

Both write with the pinned mksquashfs, the same compressor, level and block size, from files that
were read a moment before. Bars: written in at most 1.1 times bare mksquashfs, checked in at most
half that time again. Enroot's default (`-comp lzo -noD`, 128 KiB blocks) is measured beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[2]
sys.path[:0] = [str(PROJECT / "tools"), str(PROJECT / "tests")]

from apertus_image.oci.image import Image  # noqa: E402 - after the path is set
from apertus_image.squashfs.check import check  # noqa: E402
from apertus_image.squashfs.enroot import generated  # noqa: E402
from apertus_image.squashfs.source import StoredImage  # noqa: E402
from apertus_image.squashfs.tree import merge_layers  # noqa: E402
from apertus_image.squashfs.write import Settings, write  # noqa: E402
from support import images  # noqa: E402

ALIKE = ["-all-root", "-mkfs-time", "0", "-all-time", "0", "-noappend", "-no-xattrs",
         "-no-hardlinks", "-no-sparse", "-quiet", "-no-progress"]
LZO = ["-all-root", "-noappend", "-quiet", "-no-progress", "-comp", "lzo", "-noD"]


@contextlib.contextmanager
def timed(name: str, times: dict[str, list[float]]):
    start = time.perf_counter()
    yield
    times.setdefault(name, []).append(time.perf_counter() - start)
    print(f"{name:<28} {times[name][-1]:8.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("image", type=Path, nargs="?", default=PROJECT / "result")
    parser.add_argument("--folder", type=Path, help="where to unpack and write")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-lzo", action="store_true", help="leave out Enroot's default")
    given = parser.parse_args()
    toolchain = images.built("toolchain") / "bin"
    source = StoredImage(Image.load(given.image))
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        work = Path(scratch)
        for _ in range(given.rounds):
            one_round(source, work, toolchain, times, lzo=not given.no_lzo)
    best = {name: min(each) for name, each in times.items()}
    total = best["ours: tree"] + best["ours: write"]
    print(f"written in {total / best['bare mksquashfs']:.2f} times bare mksquashfs, checked in "
          f"{best['ours: check'] / best['bare mksquashfs']:.2f} times that")
    if not given.no_lzo:
        print(f"enroot's lzo -noD takes {best['lzo -noD'] / total:.2f} times ours")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory of this process {peak / 1024:.0f} MiB")


def one_round(source: StoredImage, work: Path, programs: Path, times, *, lzo: bool) -> None:
    ours, bare, default = work / "ours.sqsh", work / "bare.sqsh", work / "lzo.sqsh"
    warm(piece.file for layer in source.read(work)[0] for node in layer.nodes.values()
         for piece in node.pieces)
    with timed("ours: tree", times):
        trees, layers = source.read(work)
        nodes = merge_layers(trees, generated(source.config))
    with timed("ours: write", times):
        write(nodes.values(), ours, programs, Settings())
    with timed("ours: check", times):
        check(ours, nodes, layers, programs)
    unpacked = work / "unpacked"
    subprocess.run([programs / "unsquashfs", "-quiet", "-no-progress", "-d", unpacked, ours],
                   check=True)
    for name, out, options in (("bare mksquashfs", bare, [*ALIKE, *Settings().arguments()]),
                               *([("lzo -noD", default, LZO)] if lzo else [])):
        warm(path for path in unpacked.rglob("*") if path.is_file() and not path.is_symlink())
        with timed(name, times):
            subprocess.run([programs / "mksquashfs", unpacked, out, *options], check=True)
    same = _sha256(ours) == _sha256(bare)
    print(f"{ours.stat().st_size} bytes ({'the same bits as' if same else 'NOT the bits of'} bare "
          "mksquashfs)" + (f"; lzo -noD {default.stat().st_size} bytes" if lzo else ""))
    shutil.rmtree(unpacked)
    for file in (ours, bare, default):
        file.unlink(missing_ok=True)


def warm(files) -> None:
    """Read files, so that no candidate waits for a disk that another did not wait for."""
    for name in files:
        with Path(name).open("rb", buffering=0) as data:
            while data.read(1 << 20):
                pass


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


if __name__ == "__main__":
    main()
