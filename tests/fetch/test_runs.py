"""Whole runs that end badly: nothing half-made stays, and the next run goes on."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile

import pytest
from apertus_image.errors import UserError
from apertus_image.fetch import prefetch as module
from apertus_image.fetch.download import DiskFull, Pin
from apertus_image.fetch.plan import Bootstrap, Input
from apertus_image.fetch.prefetch import prefetch
from apertus_image.pins.names import store_name
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store
from support import images, server

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix-store"), reason="not run: Nix is not here"),
]
BIG = os.urandom(4096) * 1000


def deb(name: str, data: bytes) -> Input:
    digest, file = hashlib.sha256(data).hexdigest(), f"{name}_1_all.deb"
    return Input("deb", name, "1", Pin(file, digest, len(data)), f"pool/{file}",
                 "Sat, 21 Nov 2026 09:15:44 UTC", fixed_output_path(store_name(file), digest))


@pytest.fixture
def web(monkeypatch):
    for name in ("APERTUS_DEBIAN_SNAPSHOT", "APERTUS_SUBSTITUTERS"):
        monkeypatch.delenv(name, raising=False)
    with server.serve() as script:
        monkeypatch.setenv("APERTUS_PYPI_INDEX", f"{script.url}/simple")
        monkeypatch.setenv("APERTUS_DEBIAN_MIRRORS", f"{script.url}/debian")
        yield script


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "root")


@pytest.fixture
def boot(tmp_path, store):
    file = tmp_path / "apertus-bootstrap-test"
    file.write_text("x")
    return Bootstrap((), "", "test", store.add_file(file))


def offer(web, *inputs_and_data):
    for each, data in inputs_and_data:
        web.replies[f"/debian/{each.pool}"] = [server.ranged(data)]


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_is_gone_on_with(web, store, boot, tmp_path, sign):
    small, big = deb("small", b"small"), deb("big", BIG)
    offer(web, (small, b"small"))
    begun = threading.Event()

    def stall(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BIG)))
        handler.end_headers()
        handler.wfile.write(BIG[:2_000_000])
        begun.set()
        for start in range(2_000_000, 3_000_000, 1000):
            handler.wfile.write(BIG[start : start + 1000])
            time.sleep(0.02)

    web.replies[f"/debian/{big.pool}"] = [stall, server.ranged(BIG)]
    code = ("import sys; from pathlib import Path; from tests_input import *; "
            "prefetch(wanted, boot, Store(Path(sys.argv[1])), Path(sys.argv[2]))")
    (tmp_path / "tests_input.py").write_text(
        "from apertus_image.fetch.download import Pin\n"
        "from apertus_image.fetch.plan import Bootstrap, Input\n"
        "from apertus_image.fetch.prefetch import prefetch\n"
        "from apertus_image.store.store import Store\n"
        f"wanted = {[small, big]!r}\nboot = {boot!r}\n")
    environment = os.environ | {"PYTHONPATH": f"{images.PROJECT / 'tools'}:{tmp_path}"}
    run = subprocess.Popen([sys.executable, "-c", code, store.root, tmp_path / "cache"],
                           env=environment, stderr=subprocess.DEVNULL,
                           # A test run in the background would pass on an ignored SIGINT.
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert begun.wait(30)
    part = tmp_path / "cache" / big.pin.sha256 / f"{big.pin.file}.part"
    while not part.exists() or part.stat().st_size < 1_000_000:
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(sign)
    run.wait(10)
    assert store.valid([big.store_path]) == set() and part.stat().st_size < len(BIG)
    assert prefetch([small, big], boot, store, tmp_path / "cache").fetched >= 1
    *_, wanted = (span for _, path, span in web.asked if path == f"/debian/{big.pool}")
    assert int(wanted.removeprefix("bytes=").rstrip("-")) >= 1_000_000
    assert store.valid([small.store_path, big.store_path]) == {small.store_path, big.store_path}
    assert not (tmp_path / "cache").exists()


def test_a_full_disk_ends_the_run_with_one_error(web, store, boot, tmp_path, monkeypatch):
    cache = tmp_path / "small"
    cache.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", cache],
                             capture_output=True)
    if mounted.returncode:
        pytest.skip("not run: no file system of a megabyte can be mounted here")
    # Room is asked for beforehand too; somebody else may take it meanwhile.
    monkeypatch.setattr(module, "room", lambda *_: None)
    try:
        wanted = [deb(f"p{number}", BIG + bytes([number])) for number in range(20)]
        offer(web, *((each, BIG + bytes([number])) for number, each in enumerate(wanted)))
        with pytest.raises(DiskFull, match="the disk is full"):
            prefetch(wanted, boot, store, cache / "cache", jobs=2)
        assert len(web.asked) < len(wanted)
    finally:
        subprocess.run(["umount", cache], check=True)


def test_a_full_store_is_a_full_disk(web, store, boot, tmp_path, monkeypatch):
    def full(_file):
        raise UserError("Nix refused", got="error: writing: No space left on device")

    one = deb("one", b"one")
    offer(web, (one, b"one"))
    monkeypatch.setattr(store, "add_file", full)
    with pytest.raises(DiskFull):
        prefetch([one], boot, store, tmp_path / "cache")
    # What arrived is kept.
    assert (tmp_path / "cache" / one.pin.sha256 / one.pin.file).read_bytes() == b"one"


def test_too_little_room_is_told_before_anything_is_asked(web, store, boot, tmp_path, monkeypatch):
    usage = type(shutil.disk_usage("/"))(10, 9, 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match="not enough room"):
        prefetch([deb("one", b"one")], boot, store, tmp_path / "cache")
    assert web.asked == []


def test_a_second_run_waits_for_the_first(web, store, boot, tmp_path):
    one = deb("one", b"one")
    offer(web, (one, b"one"))
    (tmp_path / "cache").mkdir()
    waiting, results = threading.Event(), []
    with (tmp_path / "cache.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=lambda: results.append(
            prefetch([one], boot, store, tmp_path / "cache", waiting=waiting.set)))
        second.start()
        assert waiting.wait(30) and web.asked == []
        (tmp_path / "cache").rmdir()
    second.join(30)
    assert results[0].fetched == 1


def test_a_wheel_that_is_refused_is_not_kept(web, store, boot, tmp_path):
    file = tmp_path / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("pkg-1.0.dist-info/METADATA", "Name: pkg\nVersion: 2.0\n")
    data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    wanted = Input("wheel", "pkg", "1.0", Pin(file.name, digest, len(data)), "", "",
                   fixed_output_path(file.name, digest))
    page = f'<a href="{file.name}">x</a>'
    web.replies["/simple/pkg/"] = [server.body(page.encode(), "text/html")]
    web.replies[f"/simple/pkg/{file.name}"] = [server.body(data)]
    with pytest.raises(UserError, match="not what its pin says"):
        prefetch([wanted], boot, store, tmp_path / "cache")
    assert store.valid([wanted.store_path]) == set()
    assert not (tmp_path / "cache").exists()


def test_the_users_nix_cache_is_the_last_place(web, store, boot, tmp_path, monkeypatch):
    lost = deb("lost", b"lost")
    other = Store(tmp_path / "other")
    (tmp_path / lost.pin.file).write_bytes(b"lost")
    other.add_file(tmp_path / lost.pin.file)
    cache = f"file://{tmp_path}/nix-cache"
    subprocess.run(["nix", *other.nix_args(), "copy", "--to", cache, lost.store_path],
                   check=True, capture_output=True)
    with pytest.raises(UserError, match="dropped lost"):
        prefetch([lost], boot, store, tmp_path / "cache")
    monkeypatch.setenv("APERTUS_SUBSTITUTERS", cache)
    assert prefetch([lost], boot, store, tmp_path / "cache").fetched == 1
    assert store.physical(lost.store_path).read_bytes() == b"lost"


def test_no_network_is_told_once_and_not_as_dropped_packages(
    store, boot, tmp_path, monkeypatch
):
    monkeypatch.setenv("APERTUS_PYPI_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("APERTUS_DEBIAN_MIRRORS", "http://127.0.0.1:9/debian")
    monkeypatch.delenv("APERTUS_DEBIAN_SNAPSHOT", raising=False)
    monkeypatch.setattr(module._Run, "_wait", lambda *_: None)
    wanted = [deb(f"p{number}", bytes([number])) for number in range(30)]
    with pytest.raises(UserError) as error:
        prefetch(wanted, boot, store, tmp_path / "cache")
    said = str(error.value)
    assert "30 inputs could not be brought" in said and "connection refused" in said
    assert "and 25 more: " in said and "p9_1_all.deb" in said
    assert "nothing answers: check the network" in said and "--gone" not in said
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written(store, boot, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cache cannot be written") as error:
        prefetch([deb("one", b"one")], boot, store, tmp_path / "file/cache")
    assert "XDG_CACHE_HOME" in str(error.value)


def test_parts_that_nobody_wants_are_forgotten(web, store, boot, tmp_path):
    one = deb("one", b"one")
    (tmp_path / one.pin.file).write_bytes(b"one")
    store.add_file(tmp_path / one.pin.file)
    # In the store already: a run was killed just before it cleaned up.
    for name, age in (("old", 30 * 86400), ("new", 0), (one.pin.sha256, 0)):
        (tmp_path / "cache" / name).mkdir(parents=True)
        os.utime(tmp_path / "cache" / name, (time.time() - age,) * 2)
    assert prefetch([one], boot, store, tmp_path / "cache").fetched == 0
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["new"]
