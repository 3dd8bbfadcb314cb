"""How fast a layer is hashed, beside `openssl dgst -sha256` on the same cached data.

    python tests/bench/bench_layer.py [--gib 2] [--rounds 3]
    python tests/bench/bench_layer.py --tree /nix/store/…-python-libraries-x86_64

The first makes one file of that size; the second takes a real tree, which openssl gets as one
stream from `cat`. Bar: at least 0.7 times openssl's speed. One run pairs the two, round by round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from apertus_image.oci.layer import digest  # noqa: E402 - after the path is set
from apertus_image.oci.paths import LayerPath  # noqa: E402


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tree", help="a real tree instead of one file")
    given = parser.parse_args()
    if given.tree:
        everything = 'find "$0" -type f -print0 | xargs -0 cat | openssl dgst -sha256'
        compare(given.tree, ["sh", "-c", everything, given.tree], given.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")
        block = os.urandom(1 << 24)
        with file.open("wb") as out:
            for _ in range(int(given.gib * 64)):
                out.write(block)
        compare(folder, ["openssl", "dgst", "-sha256", str(file)], given.rounds)


def compare(tree: str, command: list[str], rounds: int) -> None:
    """Print the median times of both, and their ratio."""
    path = LayerPath(tree, (f"^{tree}", ""))
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(seconds(lambda: digest([path])))
        theirs.append(seconds(lambda: subprocess.run(command, check=True,
                                                     stdout=subprocess.DEVNULL)))
    mine, peer = statistics.median(ours), statistics.median(theirs)
    print(f"layer {mine:.2f} s, openssl {peer:.2f} s, {peer / mine:.2f} times openssl's speed")


if __name__ == "__main__":
    main()
