"""An export that is killed: never a broken file under the final name, always a good rerun."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from support import layouts
from support.exports import export, needs_nix, programs

pytestmark = needs_nix

# Exports a layout; kills itself before the n-th thing it does to files in the target's folder.
CODE = """
import os, signal, sys
from pathlib import Path
from apertus_image.oci.layout import Layout
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import LayoutImage
layout, out, programs, moment = sys.argv[1:]
left = int(moment)
DONE = {"open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.chmod",
        "shutil.rmtree", "subprocess.Popen"}

def hook(event, arguments):
    global left
    if event in DONE and (event == "subprocess.Popen" or os.path.dirname(out) in str(arguments)):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

image = LayoutImage(Layout(Path(layout)))
exporter = Exporter(Path(programs))
print("ready", flush=True)
if left:
    sys.addaudithook(hook)
exporter.export(image, Path(out))
"""


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    source = random.Random(5)
    members = [layouts.file(f"d/{n}", source.randbytes(9_000) * 20) for n in range(10)]
    return layouts.layout(tmp_path_factory.mktemp("killed") / "layout", [
        layouts.layer(*members, compression="gzip"),
        layouts.layer(layouts.gone("d/3"), layouts.file("x", "x"))])


@pytest.fixture(scope="module")
def good(layout, tmp_path_factory):
    """The SHA-256 of the whole export."""
    return export(layout, tmp_path_factory.mktemp("good") / "x.sqsh").record["sha256"]


@pytest.fixture
def run(layout, tmp_path):
    def start(moment=0):
        (tmp_path / "out").mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, layout, tmp_path / "out/x.sqsh", programs(), str(moment)],
            env=os.environ | {"PYTHONPATH": ":".join(sys.path)}, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout.readline() == b"ready\n"
        return process

    return start


@pytest.fixture
def whole_or_absent(good, layout, tmp_path):
    """Asserts that what lies under the final names is good, then that a rerun makes all good."""

    def look():
        file = tmp_path / "out/x.sqsh"
        beside = {suffix: file.with_name(file.name + suffix) for suffix in (".json", ".sha256")}
        if file.exists():
            assert hashlib.sha256(file.read_bytes()).hexdigest() == good
        if beside[".json"].exists():
            assert json.loads(beside[".json"].read_text())["sha256"] == good
        if beside[".sha256"].exists():
            assert beside[".sha256"].read_text() == f"{good}  x.sqsh\n"
        assert export(layout, file).record["sha256"] == good
        assert hashlib.sha256(file.read_bytes()).hexdigest() == good
        assert sorted(path.name for path in file.parent.iterdir()) == [
            "x.sqsh", "x.sqsh.json", "x.sqsh.sha256"]
        for path in file.parent.iterdir():
            path.unlink()

    return look


def wait(process):
    """Until it and what it started are gone: a child that was just forked has its lock too."""
    process.wait()
    process.stdout.close()
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(process.pid, 0)
            time.sleep(0.01)


def test_twenty_random_moments(run, whole_or_absent):
    process, started = run(), time.monotonic()
    wait(process)
    length = time.monotonic() - started
    whole_or_absent()
    source, killed = random.Random(20), 0
    for number in itertools.count():
        if number >= 20 and killed > 10:
            break
        assert number < 200
        process = run()
        time.sleep(source.uniform(0, length))
        # A kill -9 hits the one process; a job's end hits all of them.
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if number % 2 else os.kill)(process.pid, signal.SIGKILL)
        wait(process)
        killed += process.returncode == -signal.SIGKILL
        whole_or_absent()


def test_before_each_thing_done_to_the_targets_folder(run, whole_or_absent):
    moment, killed = 0, True
    while killed:
        moment += 1
        process = run(moment)
        wait(process)
        killed = process.returncode == -signal.SIGKILL
        assert killed or process.returncode == 0
        whole_or_absent()
    assert moment > 15
