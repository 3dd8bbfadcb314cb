"""Memory: chunks times workers and a little, however large a layer is (case 22)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from support import pushing
from support.distribution import running
from support.pushing import MIB

PUSH = """
import re, sys
from pathlib import Path
from apertus_image.registry.chunks import ChunkSize
from apertus_image.registry.client import Client
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.oci.image import Image
from apertus_image.registry.source import from_image
target = Reference.parse(sys.argv[2])
done = push(from_image(Image.load(Path(sys.argv[1]))), target, Client(target.host), workers=2,
            chunk=ChunkSize(32 << 20))
# Not getrusage: its peak begins with that of the process that started this one.
status = Path("/proc/self/status").read_text()
print(done.sent, re.search(r"VmHWM:\\s*(\\d+) kB", status)[1])
"""


def test_a_gibibyte_goes_through_two_chunks(tmp_path):  # case 22
    tree = tmp_path / "sparse"
    tree.mkdir()
    with (tree / "data").open("wb") as out:
        out.truncate(1 << 30)
    layer = pushing.layer(tree)
    (tmp_path / "image.json").write_text(pushing.image([layer]).json())
    with running(tmp_path / "registry") as registry:
        done = subprocess.run([sys.executable, "-c", PUSH, tmp_path / "image.json",
                               f"{registry.host}/a:1"], capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": ":".join(sys.path)})
    shutil.rmtree(tmp_path / "registry")
    assert done.returncode == 0, done.stderr
    sent, peak = map(int, done.stdout.split())
    assert sent > 1 << 30
    assert peak * 1024 < 2 * 32 * MIB + 150 * MIB
