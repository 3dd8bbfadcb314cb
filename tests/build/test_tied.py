"""A program that is tied to a process ends with it, and so does what Nix builds."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest
from apertus_image.build import tied
from support import kills
from support.images import STORE
from support.kills import adopting
from support.world import FIXTURE

CODE = """
import os, sys
from apertus_image.build import tied
tied.run(sys.argv[1:], os.environ)
"""
TOLD = "trap 'echo told >&2; exit' TERM; echo begun >&2; while :; do sleep 0.05; done"


def begun(*command):
    """A process of its own session that runs a command, once that says that it has begun."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *command], stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        # A test run in the background would pass on an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    for line in process.stderr:
        if line.strip() == "begun":
            return process
    raise AssertionError("it did not begin")


def test_what_it_gives_is_as_without():
    ran = tied.run(["sh", "-c", "echo $WORD; exit 3"], os.environ | {"WORD": "word"})
    assert (ran.returncode, ran.stdout) == (3, "word\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_however_a_process_group_ends_the_program_is_told(number):
    with adopting(), begun("sh", "-c", TOLD) as process:
        os.killpg(process.pid, number)
        said = process.stderr.read()  # until the program is gone too
    assert said.startswith("told") and process.returncode


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix-build"), reason="not run: Nix is not here")
def test_what_nix_builds_ends_too(monkeypatch):
    monkeypatch.setattr(kills, "LETTING_GO", 20)
    with adopting():
        with begun("nix-build", *STORE.nix_args(), "--no-out-link", str(FIXTURE), "-A",
                   "endless") as process:
            os.killpg(process.pid, signal.SIGKILL)
