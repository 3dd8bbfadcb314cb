"""How fast an image is pushed, beside `skopeo copy --preserve-digests` of its OCI layout.

    python tests/bench/bench_push.py [--image result] [--mib 800] [--rounds 3]

Without an image, one of eight layers of random bytes is made. Each push goes to a docker-registry
of its own, empty and on this disk; ours reads the store and makes the layers while they are sent,
skopeo reads a layout made beforehand. Bar: at most 1.1 times skopeo's time. One run pairs the
two, round by round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from apertus_image.oci.image import Image  # noqa: E402 - after the path is set
from apertus_image.oci.layout import Descriptor, Layout  # noqa: E402
from apertus_image.registry.source import from_image  # noqa: E402
from support import distribution, pushing  # noqa: E402

LAYERS = 8


def made(folder: Path, mib: int) -> Path:
    """An image JSON of random layers."""
    layers = []
    for number in range(LAYERS):
        tree = folder / f"tree-{number}"
        tree.mkdir()
        with (tree / "data").open("wb") as out:
            for _ in range(mib // LAYERS):
                out.write(os.urandom(1 << 20))
        layers.append(pushing.layer(tree))
    file = folder / "image.json"
    file.write_text(pushing.image(layers).json())
    return file


def layout(folder: Path, image: Path) -> Path:
    """The image as a layout, its manifest the one that a push sends."""
    source, out = from_image(Image.load(image)), Layout.create(folder / "layout")
    for blob in source.blobs():
        out.add(blob.chunks())
    manifest = source.manifest("oci")
    out.add([manifest.data])
    out.tag(Descriptor(manifest.media_type, manifest.digest, len(manifest.data), {}), "x")
    return out.folder


def timed(folder: Path, command: Callable[[str], list]) -> float:
    """Seconds that a push to an empty registry takes."""
    with tempfile.TemporaryDirectory(dir=folder) as data:
        with distribution.running(Path(data)) as registry:
            start = time.perf_counter()
            subprocess.run(command(registry.host), check=True, capture_output=True)
            return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", type=Path)
    parser.add_argument("--mib", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        image = given.image or made(folder, given.mib)
        source = layout(folder, image)
        commands = {
            "from the store": lambda host: [ROOT / "tools/push-image", image,
                                            f"docker://{host}/a:1", "--format", "oci"],
            "from the layout": lambda host: [ROOT / "tools/push-image", source,
                                             f"docker://{host}/a:1", "--format", "oci"],
            "skopeo": lambda host: ["skopeo", "--insecure-policy", "copy", "--preserve-digests",
                                    "--dest-tls-verify=false", f"oci:{source}:x",
                                    f"docker://{host}/a:1"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(given.rounds):
            for name, command in commands.items():
                times[name].append(timed(folder, command))
        medians = {name: statistics.median(each) for name, each in times.items()}
        for name, seconds in medians.items():
            print(f"{name}: {seconds:.2f} s, {seconds / medians['skopeo']:.2f} times skopeo's")


if __name__ == "__main__":
    main()
