"""A site's registry: one server a folder, stopped cleanly, and never left behind."""

from __future__ import annotations

import http.server
import os
import resource
import signal
import socket
import stat
import threading
import time

import pytest
import requests
from support import site

pytestmark = site.needs_programs


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "registry"


def begin_upload(server):
    """Start an upload of 5 bytes; returns where it goes on."""
    start = requests.post(f"{server.url}a/b/blobs/uploads/", timeout=10)
    return requests.patch(start.headers["Location"], data=b"hello", timeout=10,
                          headers={"Content-Type": "application/octet-stream"}).headers["Location"]


def finish_upload(location):
    digest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    return requests.put(location, params={"digest": digest}, timeout=10).status_code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_answers_where_it_says_and_a_signal_ends_it(folder, number):
    with site.serving(folder) as server:
        assert server.address.startswith("127.0.0.1:")
        assert requests.get(server.url, timeout=10).status_code == 200
        registry = server.registry
        assert server.end(number) == (0, "")
        assert not site.alive(registry)
    assert site.run("status", folder).returncode == 1


def test_images_and_uploads_outlive_a_restart(folder, tmp_path):
    layout = site.image(tmp_path / "layout", 1)
    with site.serving(folder) as server:
        site.push(layout, server, "a/b:v1")
        location, first = begin_upload(server), server.address
        kept = (folder / "http.secret").read_text()
        assert stat.S_IMODE((folder / "http.secret").stat().st_mode) == 0o600
    with site.serving(folder) as server:
        assert server.address == first and (folder / "http.secret").read_text() == kept
        assert finish_upload(location) == 201
        back = site.pull(server, "a/b:v1", tmp_path / "back")
        assert site.blobs_of(back) == site.blobs_of(layout)
        location = begin_upload(server)
    (folder / "http.secret").unlink()
    with site.serving(folder):
        assert finish_upload(location) == 404


def test_a_second_server_is_refused_and_the_first_goes_on(folder):
    with site.serving(folder) as server:
        second = site.run("serve", folder)
        assert second.returncode == 1 and second.stdout == ""
        assert f"process {server.process.pid} " in second.stderr and server.address in second.stderr
        assert requests.get(server.url, timeout=10).status_code == 200


def test_a_killed_server_leaves_no_process_and_no_lock(folder):
    with site.serving(folder) as server:
        registry = server.registry
        server.process.kill()
        server.process.wait()
        for _ in range(1000):  # the kernel is at it
            if not site.alive(registry):
                break
            time.sleep(0.01)
        assert not site.alive(registry)
    assert "nobody has the folder" in site.run("status", folder).stderr
    with site.serving(folder) as again:
        assert again.address == server.address


def test_a_registry_that_ends_by_itself_is_an_error(folder):
    with site.serving(folder) as server:
        os.kill(server.registry, signal.SIGKILL)
        out, err = server.process.communicate(timeout=60)
    assert (server.process.returncode, out) == (1, "")
    assert "the registry has ended" in err and "registry.log" in err and "Traceback" not in err


def test_detached_it_is_found_and_stopped_by_the_folder(folder):
    started = site.run("serve", folder, "--detach")
    assert started.returncode == 0, started.stderr
    try:
        address = started.stdout.strip()
        assert site.run("status", folder).stdout.strip() == address
        assert requests.get(f"http://{address}/v2/", timeout=10).status_code == 200
    finally:
        stopped = site.run("stop", folder)
    assert stopped.returncode == 0 and "stopped process" in stopped.stderr
    assert site.run("status", folder).returncode == 1
    again = site.run("stop", folder)
    assert again.returncode == 0 and "nothing was running" in again.stderr


def test_detached_it_fails_before_it_returns(folder):
    with site.serving(folder):
        second = site.run("serve", folder, "--detach")
    assert second.returncode == 1 and "the folder is in use" in second.stderr


class Stranger(http.server.BaseHTTPRequestHandler):
    """Another's registry on the port, as far as one can see."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_port_that_another_took_is_not_taken_for_ours(folder):
    with site.serving(folder) as server:
        port = int(server.address.rpartition(":")[2])
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Stranger) as stranger:
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        asked = site.run("serve", folder, "--port", port)
        assert asked.returncode == 1 and "the port is taken" in asked.stderr
        with site.serving(folder) as server:
            assert server.address != f"127.0.0.1:{port}"
        stranger.shutdown()


def test_a_port_is_taken_as_asked_for(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with site.serving(folder, "--port", str(port)) as server:
        assert server.address == f"127.0.0.1:{port}"


def test_the_users_environment_changes_nothing(folder):
    with site.serving(folder, REGISTRY_HTTP_ADDR="127.0.0.1:1", REGISTRY_AUTH="htpasswd",
                      http_proxy="http://127.0.0.1:1") as server:
        assert requests.get(server.url, timeout=10).status_code == 200


def test_a_purged_place_is_refused_unless_it_is_a_cache(folder, tmp_path):
    purged = {"APERTUS_PURGED": f"{tmp_path}=9"}
    refused = site.run("serve", folder, **purged)
    assert refused.returncode == 1 and not folder.exists()
    assert "nobody read for 9 days" in refused.stderr and "--cache" in refused.stderr
    with site.serving(folder, "--cache", **purged) as server:
        assert requests.get(server.url, timeout=10).status_code == 200
        assert "warning" in server.end(signal.SIGTERM)[1]


def test_a_folder_with_other_things_is_left_alone(folder):
    folder.mkdir()
    (folder / "thesis.tex").write_text("x")
    refused = site.run("serve", folder)
    assert refused.returncode == 1 and "holds other things" in refused.stderr
    assert [each.name for each in folder.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("command", ["status", "stop", "fsck"])
def test_where_no_registry_lives_the_next_step_is_told(folder, command):
    result = site.run(command, folder)
    assert result.returncode == 1 and f"tools/registry serve {folder}" in result.stderr
    assert not folder.exists()


@pytest.mark.parametrize("room", [0, 100])
def test_no_room_for_its_own_files_is_one_clear_error(folder, room):
    """A limit on files' sizes stands for the full disk: 100 bytes hold the lock alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        result = site.run("serve", folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result.returncode == 1 and "folder cannot be used" in result.stderr
    assert "Traceback" not in result.stderr and site.run("status", folder).returncode == 1


def test_a_missing_program_is_named_by_its_package(folder):
    result = site.run("serve", folder, PATH="/nowhere")
    assert result.returncode == 1 and "apt-get install docker-registry" in result.stderr
    assert not folder.exists()
