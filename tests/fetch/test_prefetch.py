"""Prefetching into a store of its own: what is missing, and nothing twice."""

from __future__ import annotations

import hashlib
import shutil
import zipfile

import pytest
from apertus_image.errors import UserError
from apertus_image.fetch.download import Pin
from apertus_image.fetch.places import of_package
from apertus_image.fetch.plan import IMAGES, Bootstrap, Input, inputs, machine_of
from apertus_image.fetch.prefetch import check_wheel, prefetch
from apertus_image.pins.names import store_name
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store
from apertus_image.tree.machine import MACHINES
from support import images, server

needs_nix = pytest.mark.skipif(not shutil.which("nix-store"), reason="not run: Nix is not here")
DATE = "Sat, 21 Nov 2026 09:15:44 UTC"


def pinned(kind, name, data, file, pool=""):
    digest = hashlib.sha256(data).hexdigest()
    return Input(kind, name, "1.0", Pin(file, digest, len(data)), pool, DATE,
                 fixed_output_path(store_name(file), digest))


def wheel(folder, name, version="1.0"):
    file = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}-1.0.dist-info/METADATA",
                         f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return file.read_bytes(), file.name


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A store that holds only a bootstrap, and a server that is index and mirror."""
    store = Store(tmp_path / "root")
    there = tmp_path / "apertus-bootstrap-test"
    there.write_text("x")
    boot = Bootstrap((), "", "test", store.add_file(there))
    with server.serve() as web:
        monkeypatch.setenv("APERTUS_PYPI_INDEX", f"{web.url}/none {web.url}/simple")
        monkeypatch.setenv("APERTUS_DEBIAN_MIRRORS", f"{web.url}/gone {web.url}/debian")
        monkeypatch.setenv("APERTUS_DEBIAN_SNAPSHOT", f"{web.url}/snapshot")
        yield store, boot, web


@needs_nix
@pytest.mark.nix
def test_what_is_missing_is_brought_once(site, tmp_path):
    store, boot, web = site
    data, name = wheel(tmp_path, "pkg")
    deb, epoch = b"deb" * 100, "x_1%3a2~b_amd64.deb"  # trap 3
    web.replies["/simple/pkg/"] = [server.body(f'<a href="{name}">x</a>'.encode(), "text/html")]
    web.replies[f"/simple/pkg/{name}"] = [server.ranged(data)]
    web.replies["/debian/pool/x_1%253a2~b_amd64.deb"] = [server.ranged(deb)]
    wanted = [pinned("wheel", "pkg", data, name), pinned("deb", "x", deb, epoch, f"pool/{epoch}")]
    result = prefetch(wanted, boot, store, tmp_path / "cache")
    assert (result.present, result.fetched) == (0, 2)
    assert store.valid([each.store_path for each in wanted]) == {w.store_path for w in wanted}
    assert store.physical(wanted[0].store_path).read_bytes() == data
    asked = len(web.asked)
    again = prefetch(wanted, boot, store, tmp_path / "cache")
    assert (again.present, again.fetched) == (2, 0)
    assert len(web.asked) == asked and not (tmp_path / "cache").exists()


@needs_nix
@pytest.mark.nix
def test_a_dropped_package_comes_from_the_snapshot_of_the_day_after(site, tmp_path):
    store, boot, web = site
    web.replies["/snapshot/20261122T091544Z/pool/x.deb"] = [server.ranged(b"deb")]
    wanted = [pinned("deb", "x", b"deb", "x.deb", "pool/x.deb")]
    assert prefetch(wanted, boot, store, tmp_path / "cache").fetched == 1


@needs_nix
@pytest.mark.nix
def test_packages_that_are_gone_are_named_with_the_remedy(site, tmp_path):
    store, boot, web = site
    data, name = wheel(tmp_path, "pkg")
    web.replies["/simple/pkg/"] = [server.body(f'<a href="{name}">x</a>'.encode(), "text/html")]
    web.replies[f"/simple/pkg/{name}"] = [server.ranged(data)]
    wanted = [pinned("deb", "lost", b"deb", "lost.deb", "pool/lost.deb"),
              pinned("wheel", "pkg", data, name)]
    with pytest.raises(UserError) as error:
        prefetch(wanted, boot, store, tmp_path / "cache")
    said = str(error.value)
    assert "dropped lost" in said and "tools/lock debian --gone" in said
    assert "/gone/pool/lost.deb: HTTP 404" in said and "/snapshot/" in said
    # What could be had is there, and is not asked for again.
    assert store.valid([wanted[1].store_path])


def test_a_wheel_of_another_version_is_refused(tmp_path):
    data, name = wheel(tmp_path, "pkg", "2.0")
    check_wheel(tmp_path / name, "pkg", "2.0")
    with pytest.raises(UserError, match="not what its pin says") as error:
        check_wheel(tmp_path / name, "pkg", "1.0")
    assert "pkg 1.0" in str(error.value) and "pkg 2.0" in str(error.value)
    (tmp_path / "x.whl").write_bytes(b"no zip")
    with pytest.raises(UserError, match="not a wheel"):
        check_wheel(tmp_path / "x.whl", "x", "1")


def test_a_folder_may_hold_a_pool_or_the_files(tmp_path):
    each = pinned("deb", "x", b"deb", "x.deb", "pool/x.deb")
    assert list(of_package(each, [f"file://{tmp_path}"], [])) == [
        f"{tmp_path}/pool/x.deb", f"{tmp_path}/x.deb"]


def test_names_of_images():
    native = MACHINES["x86_64"]
    assert machine_of("apertus-image", native) == ("apertus-image", native)
    assert machine_of("smoke-image-aarch64", native) == ("smoke-image", MACHINES["aarch64"])
    with pytest.raises(UserError, match="unknown image"):
        machine_of("apertus", native)


def test_the_plan_of_the_real_locks():
    pins = images.PROJECT / "nix/pins"
    both = {name: inputs(pins, [name], MACHINES["x86_64"])[0] for name in IMAGES}
    assert len(both["apertus-image"]) > 400 > 100 > len(both["smoke-image"]) > 50
    arm, boot = inputs(pins, ["apertus-image-aarch64"], MACHINES["x86_64"])
    # The toolchain is the build machine's, the content the target's.
    assert {e.pin.file.rpartition("_")[2] for e in arm if e.kind == "deb"} == {
        "amd64.deb", "arm64.deb", "all.deb"}
    assert boot.system == "x86_64-linux"
