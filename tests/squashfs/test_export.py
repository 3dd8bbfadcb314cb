"""Exports: the importer's tree, one file of bits, and nothing half-done under a final name."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.oci.layer import Layer, digest
from apertus_image.oci.paths import LayerPath, Perm
from apertus_image.squashfs.check import check, check_entries
from apertus_image.squashfs.content import contents
from apertus_image.squashfs.enroot import generated
from apertus_image.squashfs.export import Exported, Exporter, default_name
from apertus_image.squashfs.node import Piece
from apertus_image.squashfs.source import StoredImage
from apertus_image.squashfs.tree import merge_layers
from apertus_image.squashfs.write import Settings, write
from support import images, trees

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]
LABELS = {"org.opencontainers.image.title": "t", "org.opencontainers.image.version": "1"}
CONFIG = {"Env": ["PATH=/bin", "A=b c"], "Cmd": ["/bin/sh", "it's"], "WorkingDir": "/job/here",
          "Labels": LABELS, "Volumes": {"/v": {}}}
ODD = {name: text for name, text in trees.ODD.items() if "\n" not in name}


@pytest.fixture(scope="module")
def programs():
    return images.built("toolchain") / "bin"


@pytest.fixture
def image(tmp_path):
    """An image of two layers, the upper replacing parts of the lower."""
    lower = trees.make(tmp_path / "lower", ODD | {"dev/null": "x", "etc/rc": "old", "swap/f": "1",
                                                  "again": "1", "private/f": "p"})
    upper = trees.make(tmp_path / "upper", {"swap": "2", "again/deep": "2",
                                            "etc/x": ("new\n", True), "bin/su": ("s", True)})
    paths = [LayerPath(str(lower), (f"^{lower}", ""), (Perm(".*/private$", "0000"),)),
             LayerPath(str(upper), (f"^{upper}", ""), (Perm(".*/su$", "4755"),))]
    layers = [Layer(*digest([path]), (path,), {}) for path in paths]
    return Image.make(CONFIG, layers, "amd64", "2026-07-15T00:00:00Z")


def export(image, out, programs, **more) -> Exported:
    return Exporter(programs, **more).export(StoredImage(image), out)


def tree(image):
    """The nodes of an export, and the layers that prove them."""
    trees, layers = StoredImage(image).read(None)
    return merge_layers(trees, generated(image.config)), layers


def listing(file, programs):
    """path -> (mode, owner, size or link) as unsquashfs lists them, the referee."""
    text = subprocess.run([programs / "unsquashfs", "-lln", file], capture_output=True, check=True,
                          env={"LC_ALL": "C.UTF-8"}).stdout.decode()
    found = {}
    for line in text.splitlines():
        if " squashfs-root" in line:
            mode, owner, size, _, _, path = line.split(None, 5)
            found[path.removeprefix("squashfs-root") or "/"] = (mode, owner, size)
    return found


def test_the_tree_is_the_importers(image, programs, tmp_path):
    done = export(image, tmp_path, programs)
    found = listing(done.path, programs)
    assert {owner for _, owner, _ in found.values()} == {"0/0"}
    assert found["/"][0] == found["/etc"][0] == "drwxr-xr-x"
    assert found["/private"][0] == "drwx------"  # 0000 becomes u+rwx
    assert found["/etc/x"][0] == "-r-xr-xr-x" and found["/bin/su"][0] == "-rwsr-xr-x"
    assert found["/dev"] and not any(path.startswith("/dev/") for path in found)
    assert found["/swap"][0].startswith("-") and found["/again"][0].startswith("d")
    assert "/swap/f" not in found and "/job/here" in found
    assert found["/etc/rc"][0] == "-rw-r--r--"


def test_every_byte_is_there(image, programs, tmp_path):
    done = export(image, tmp_path, programs)
    out = tmp_path / "out"
    subprocess.run([programs / "unsquashfs", "-quiet", "-no-progress", "-d", out, done.path],
                   check=True, capture_output=True)
    wanted, _ = tree(image)
    compared = 0
    for path, node in wanted.items():
        here = out / path.lstrip("/")
        if node.type == "file":
            assert here.read_bytes() == b"".join(
                data for piece in node.pieces for data in contents(piece)), path
            compared += 1
        elif node.type == "link":
            assert os.readlink(here) == node.target
    assert compared > 20


def test_the_generated_files(image, programs, tmp_path):
    files = {node.path: node.pieces[0].data.decode() for node in generated(CONFIG) if node.pieces}
    assert files["/etc/environment"] == "PATH=/bin\nA=b c\n"
    assert files["/etc/fstab"].startswith("${ENROOT_ROOTFS}/v /v none x-create=dir,bind")
    rc = files["/etc/rc"]
    assert ". /etc/rc.local" in rc and 'exec "$@"' in rc and "cd /job/here" in rc
    # It runs: without arguments the image's own command, with them those.
    (tmp_path / "rc").write_text(rc.replace("/job/here", str(tmp_path / "w")).replace(
        "exec /bin/sh", "exec echo default"))
    run = lambda *words: subprocess.run(["sh", tmp_path / "rc", *words], capture_output=True,  # noqa: E731
                                        text=True).stdout
    assert run() == "default it's\n" and run("echo", "a  b") == "a  b\n"


@pytest.mark.parametrize(
    "config", [{"Env": ["A=${HOME}"]}, {"Env": ["A=1\n2"]}, {"WorkingDir": "here"},
               {"Volumes": {"/a b": {}}}])
def test_what_enroot_would_mangle_is_refused(config):  # cases 44 to 46
    with pytest.raises(UserError, match="Enroot would mangle"):
        generated(config)


def test_one_hash_whatever_the_surroundings(image, programs, tmp_path, monkeypatch):  # case 44
    hashes = set()
    for number, (mask, epoch) in enumerate([(0o022, None), (0o077, "1"), (0o000, "1700000000")]):
        if epoch:
            monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        old = os.umask(mask)
        try:
            done = export(image, tmp_path / f"name-{number}.sqsh", programs)
        finally:
            os.umask(old)
        hashes.add(done.record["sha256"])
        os.utime(tmp_path / "lower")
        time.sleep(1.1 if number == 0 else 0)
    one = subprocess.run(["taskset", "-c", "0", sys.executable, "-c", "pass"], capture_output=True)
    if one.returncode == 0:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        try:
            hashes.add(export(image, tmp_path / "one-cpu.sqsh", programs).record["sha256"])
        finally:
            os.sched_setaffinity(0, range(os.cpu_count()))
    assert len(hashes) == 1


def test_checksum_and_record_lie_beside_it(image, programs, tmp_path):
    done = export(image, tmp_path, programs)
    assert done.path.name == default_name(StoredImage(image)) == f"t-1-{image.image_id[7:19]}.sqsh"
    subprocess.run(["sha256sum", "--check", "--status", f"{done.path.name}.sha256"], cwd=tmp_path,
                   check=True)
    record = json.loads((tmp_path / f"{done.path.name}.json").read_text())
    assert record["image"] == image.image_id and record["size"] == done.path.stat().st_size
    assert sorted(p.name for p in tmp_path.glob(".*")) == []


def test_an_identical_file_is_success_and_another_is_refused(image, programs, tmp_path):
    done = export(image, tmp_path, programs)
    before = done.path.stat().st_mtime_ns
    assert export(image, tmp_path, programs).written is False
    other = Image.make(CONFIG | {"Env": ["X=1"]}, image.layers, "amd64", image.created)
    with pytest.raises(UserError, match="another file has the export's name"):
        export(other, done.path, programs)
    assert done.path.stat().st_mtime_ns == before
    assert export(other, done.path, programs, force=True).written
    done.path.write_bytes(b"cut")
    with pytest.raises(UserError, match="another file"):
        export(other, done.path, programs)


def test_a_file_without_its_record_is_read_back(image, programs, tmp_path):
    done = export(image, tmp_path, programs)
    (tmp_path / f"{done.path.name}.json").unlink()
    again = export(image, tmp_path, programs)
    assert again.written is False and again.record["sha256"] == done.record["sha256"]


def test_the_bits_are_those_of_mksquashfs_on_the_unpacked_tree(image, programs, tmp_path):
    done = export(image, tmp_path, programs)
    unpacked, bare = tmp_path / "unpacked", tmp_path / "bare.sqsh"
    subprocess.run([programs / "unsquashfs", "-quiet", "-no-progress", "-d", unpacked, done.path],
                   check=True, capture_output=True)
    subprocess.run(
        [programs / "mksquashfs", unpacked, bare, "-all-root", "-mkfs-time", "0", "-all-time", "0",
         "-noappend", "-no-xattrs", "-no-hardlinks", "-no-sparse", *Settings().arguments()],
        check=True, capture_output=True)
    assert bare.read_bytes() == done.path.read_bytes()


def test_a_block_that_is_damaged_is_found(image, programs, tmp_path):  # the check's control
    done = export(image, tmp_path, programs)
    nodes, layers = tree(image)
    check(done.path, nodes, layers, programs)
    data = bytearray(done.path.read_bytes())
    data[200] ^= 0xFF  # among the data blocks, which come first
    done.path.write_bytes(data)
    with pytest.raises(UserError, match="cannot read the file|bytes differ"):
        check(done.path, nodes, layers, programs)
    check_entries(done.path, nodes, programs)  # the quick check does not look there
    done.path.write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError):
        check(done.path, nodes, layers, programs)
    with pytest.raises(UserError):
        check_entries(done.path, nodes, programs)


def test_a_file_that_was_written_wrongly_is_named(image, programs, tmp_path):
    nodes, layers = tree(image)
    path = next(path for path in nodes if path.endswith("/block"))
    other = nodes[path]._replace(pieces=(Piece(nodes[path].size, data=b"x" * nodes[path].size),))
    wrong = tmp_path / "wrong.sqsh"
    write((nodes | {path: other}).values(), wrong, programs, Settings())
    with pytest.raises(UserError, match="a file's bytes differ") as caught:
        check(wrong, nodes, layers, programs)
    assert caught.value.where == path
    write((nodes | {path: other._replace(mode=0o444 ^ 0o001)}).values(), tmp_path / "mode.sqsh",
          programs, Settings())
    for judge in (lambda file: check(file, nodes, layers, programs),
                  lambda file: check_entries(file, nodes, programs)):
        with pytest.raises(UserError, match="mode differs"):
            judge(tmp_path / "mode.sqsh")


def test_a_store_that_is_not_what_was_built_is_found(image, programs, tmp_path):
    victim = next(path for path in (tmp_path / "lower").rglob("*") if path.name == "block")
    victim.chmod(0o644)
    victim.write_bytes(bytes([victim.read_bytes()[0] ^ 1]) + victim.read_bytes()[1:])
    victim.chmod(0o444)
    with pytest.raises(UserError, match="bytes of a layer differ") as caught:
        export(image, tmp_path, programs)
    assert image.layers[0].digest in str(caught.value)
    assert list(tmp_path.glob("*.sqsh")) == []


def test_a_quick_check_is_said_and_made_up_for(image, programs, tmp_path):
    done = export(image, tmp_path, programs, check="quick")
    assert done.record["check"] == "quick"
    again = export(image, tmp_path, programs)
    assert not again.written and again.record["check"] == "full"
    assert json.loads((tmp_path / f"{done.path.name}.json").read_text())["check"] == "full"
    assert export(image, tmp_path, programs, check="quick").record["check"] == "full"


def test_a_killed_export_leaves_nothing_under_the_name(image, programs, tmp_path):
    file = tmp_path / "image.json"
    file.write_text(image.json())
    out = tmp_path / "out"
    out.mkdir()
    code = ("import sys; from pathlib import Path; from apertus_image.oci.image import Image;"
            "from apertus_image.squashfs.export import Exporter;"
            "from apertus_image.squashfs.source import StoredImage;"
            "image = StoredImage(Image.load(Path(sys.argv[1])));"
            "Exporter(Path(sys.argv[3])).export(image, Path(sys.argv[2]))")
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    for moment in range(12):
        process = subprocess.Popen([sys.executable, "-c", code, file, out, programs],
                                   env=environment, start_new_session=True,
                                   stderr=subprocess.DEVNULL)
        time.sleep(0.05 + moment * 0.04)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for name in out.glob("[!.]*.sqsh"):  # only ever whole
            check(name, *tree(image), programs)
    assert export(image, out, programs).path.exists()
    assert sorted(path.name for path in out.glob(".*")) == []


def test_the_work_of_a_living_export_is_left_alone(image, programs, tmp_path):
    name = default_name(StoredImage(image))
    lock, work = tmp_path / f".{name}.aa.lock", tmp_path / f".{name}.aa.part"
    work.mkdir()
    with lock.open("x") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        export(image, tmp_path, programs)
        assert work.exists() and lock.exists()
    export(image, tmp_path, programs, force=True)
    assert not work.exists() and not lock.exists()


def test_a_target_that_is_not_there(image, programs, tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        export(image, tmp_path / "no/such/x.sqsh", programs)


def test_a_store_path_that_is_gone(image, programs, tmp_path):
    shutil.rmtree(tmp_path / "upper")
    with pytest.raises(UserError, match="gone"):
        export(image, tmp_path, programs)
    assert list(tmp_path.glob("*.sqsh")) == []
