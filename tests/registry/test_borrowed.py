"""A server for the length of a task ends with it, however the task ends."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from apertus_image.errors import UserError
from apertus_image.registry.auth import scope_of
from apertus_image.registry.chunks import ChunkSize
from apertus_image.registry.client import Client
from apertus_image.registry.server import borrowed as module
from apertus_image.registry.server.borrowed import borrowed
from apertus_image.registry.server.folder import Folder
from apertus_image.registry.server.process import answers
from apertus_image.registry.state import State, default_folder
from apertus_image.registry.upload import upload
from support import images
from support.pushing import MIB, REPOSITORY, blob_of

pytestmark = pytest.mark.skipif(not shutil.which("docker-registry"),
                                reason="not run: docker-registry is not here")


def until(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_answers_and_ends_with_the_block(tmp_path):
    with borrowed(tmp_path / "r") as address:
        assert answers(address)
    assert not answers(address) and Folder(tmp_path / "r").holder() is None


def test_a_server_that_runs_is_used_and_left_running(tmp_path):
    tool = images.PROJECT / "tools/registry"
    address = subprocess.run([tool, "serve", tmp_path / "r", "--detach"], check=True,
                             capture_output=True, text=True).stdout.strip()
    try:
        with borrowed(tmp_path / "r") as used:
            assert used == address
        assert answers(address)
    finally:
        subprocess.run([tool, "stop", tmp_path / "r"], check=True, capture_output=True)


def test_another_tasks_server_is_not_relied_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LETTING_GO", 0.5)
    with borrowed(tmp_path / "r"):
        with pytest.raises(UserError, match="is in use"):
            with borrowed(tmp_path / "r"):
                pass


def test_ctrl_c_is_the_tasks_to_act_on(tmp_path):
    code = ("import sys, time; from pathlib import Path;"
            "from apertus_image.registry.server.borrowed import borrowed\n"
            "from apertus_image.registry.server.process import answers\n"
            "with borrowed(Path(sys.argv[1])) as address:\n"
            "    try: print(address, flush=True); sys.stdin.read()\n"
            # A moment, in which a server that was told to stop would have.
            "    except KeyboardInterrupt: time.sleep(1); print(answers(address), flush=True)")
    task = subprocess.Popen([sys.executable, "-c", code, tmp_path / "r"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, start_new_session=True,
                            # A test run in the background would pass on an ignored SIGINT.
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    address = task.stdout.readline().strip()
    os.killpg(task.pid, signal.SIGINT)  # as a terminal sends it, to all of its foreground
    assert task.communicate()[0].strip() == "True"
    assert not answers(address) and Folder(tmp_path / "r").holder() is None


def test_a_killed_task_leaves_no_server_and_the_next_one_gets_the_folder(tmp_path):
    code = ("import sys, time; from pathlib import Path;"
            "from apertus_image.registry.server.borrowed import borrowed\n"
            "with borrowed(Path(sys.argv[1])) as address:\n"
            "    print(address, flush=True)\n    time.sleep(99)")
    task = subprocess.Popen([sys.executable, "-c", code, tmp_path / "r"], stdout=subprocess.PIPE,
                            text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    address = task.stdout.readline().strip()
    assert answers(address)
    task.send_signal(signal.SIGKILL)
    task.wait()
    with borrowed(tmp_path / "r") as again:
        assert answers(again)
    until(lambda: Folder(tmp_path / "r").holder() is None)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("chunks", [0, 2])
def test_an_upload_whose_task_was_killed_within_a_chunk_is_gone_on_with(tmp_path, monkeypatch,
                                                                        chunks):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    blob, state, scope = blob_of(5 * MIB + 10), State(default_folder()), scope_of(REPOSITORY)
    uploads = tmp_path / f"r/data/docker/registry/v2/repositories/{REPOSITORY}/_uploads"

    def sent(address, before):
        client = Client(address)
        send = client.send

        def until(method, url, *rest, **more):
            if method == "PATCH":
                before(url)
            return send(method, url, *rest, **more)

        client.send = until
        with state.note(client.base, REPOSITORY, blob.digest) as note:
            return upload(client, REPOSITORY, blob, chunk=ChunkSize(MIB), note=note, scope=scope)

    left = chunks

    def half(url):
        nonlocal left
        left -= 1
        if left < 0:
            connection = http.client.HTTPConnection(url.split("/")[2])
            connection.putrequest("PATCH", url)
            connection.putheader("Content-Type", "application/octet-stream")
            connection.putheader("Content-Length", str(MIB))
            connection.endheaders(b"\0" * (MIB // 2))
            connection.close()
            raise Killed

    with borrowed(tmp_path / "r") as address:
        with pytest.raises(Killed):
            sent(address, half)
    data, = uploads.glob("*/data")
    assert data.stat().st_size == chunks * MIB + MIB // 2  # the chunk's first half is kept
    with borrowed(tmp_path / "r") as address:
        done = sent(address, lambda url: None)
    assert (done.what, done.again, done.sent) == ("resumed", 0, blob.size - chunks * MIB)
    assert list(uploads.iterdir()) == []
