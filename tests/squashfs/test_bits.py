"""The bits of an export depend on the tree alone, not on how, when or by whom it is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import layouts
from support.exports import export, needs_nix
from support.layouts import file, folder, gnu_sparse, gone, hard, link, pax_sparse

pytestmark = needs_nix
CONFIG = {"Cmd": ["/bin/sh"], "Labels": {"a": "b"}, "WorkingDir": "/w"}
HOLES = b"begin" * 1024 + bytes((1 << 20) - 5120)
TREE = [folder("d"), file("d/a", "text", 0o755), file("d/b", "text", 0o755), link("d/l", "a"),
        folder("e", 0o700), file("z", HOLES), file("é", "x")]
PAX = {"form": tarfile.PAX_FORMAT, "mtime": 7.5, "uid": 0, "gname": "wheel"}

WAYS = {
    "in another order": [[*TREE[:1], *reversed(TREE[1:])]],
    "with a hard link": [[*TREE[:2], hard("d/b", "d/a"), *TREE[3:]]],
    "with a sparse file": [[*TREE[:5], gnu_sparse("z", 1 << 20, {0: HOLES[:5120]}), TREE[6]]],
    "with PAX's sparse file": [[*TREE[:5], pax_sparse("z", 1 << 20, {0: HOLES[:5120]}), TREE[6]]],
    "with other owners and times": [[
        folder("d", **PAX), file("d/a", "text", 0o755, **PAX), file("d/b", "text", 0o755, **PAX),
        link("d/l", "a", 0o644, **PAX), folder("e", 0o700, **PAX), *TREE[5:]]],
    "in dotted names": [[file("./d/a", "text", 0o755), file("d//b", "text", 0o755),
                         link("/d/l", "a"), folder("./e/", 0o700), *TREE[5:]]],
    "in layers": [[file("d/gone"), folder("e", 0o777), file("z", "old")],
                  [gone("d/gone"), folder("e", 0o700)], TREE[:4], [], TREE[5:]],
}


def sha256(layout, out):
    return export(layout, out).record["sha256"]


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return layouts.layout(tmp_path_factory.mktemp("bits") / "layout", [layouts.layer(*TREE)],
                          CONFIG)


@pytest.fixture(scope="module")
def wanted(layout, tmp_path_factory):
    return sha256(layout, tmp_path_factory.mktemp("wanted") / "x.sqsh")


@pytest.mark.parametrize("way", WAYS)
def test_one_tree_told_in_many_ways(way, wanted, tmp_path):
    other = layouts.layout(tmp_path / "layout", [layouts.layer(*layer, compression="zstd")
                                                 for layer in WAYS[way]], CONFIG)
    assert sha256(other, tmp_path / "x.sqsh") == wanted


@pytest.mark.parametrize("change", [
    {"Cmd": ["/bin/bash"]}, {"Labels": {"a": "c"}}, {"WorkingDir": "/v"}, {"Env": ["A=1"]}])
def test_another_config_is_other_bits(change, wanted, tmp_path):  # the control
    other = layouts.layout(tmp_path / "layout", [layouts.layer(*TREE)], CONFIG | change)
    assert sha256(other, tmp_path / "x.sqsh") != wanted


@pytest.mark.parametrize("change", [
    file("é", "y"), file("é", "x", 0o600), file("e/new"), link("d/l", "b"), gone("é")])
def test_another_tree_is_other_bits(change, wanted, tmp_path):  # the control
    other = layouts.layout(tmp_path / "layout", [layouts.layer(*TREE), layouts.layer(change)],
                           CONFIG)
    assert sha256(other, tmp_path / "x.sqsh") != wanted


def test_another_second_and_source_date_epoch(layout, wanted, tmp_path, monkeypatch):  # case 44
    time.sleep(1.1)
    assert sha256(layout, tmp_path / "later.sqsh") == wanted
    for epoch in ("0", "1", "1700000000", "no number"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        assert sha256(layout, tmp_path / f"{epoch}.sqsh") == wanted


def test_times_of_the_layouts_files(layout, wanted, tmp_path):  # case 44
    copy = shutil.copytree(layout, tmp_path / "copy")
    for path in (copy, *copy.rglob("*")):
        os.utime(path, (1, 1))
    assert sha256(copy, tmp_path / "x.sqsh") == wanted


@pytest.mark.parametrize("mask", [0, 0o027, 0o077])
def test_a_umask(mask, layout, wanted, tmp_path):
    old = os.umask(mask)
    try:
        assert sha256(layout, tmp_path / "x.sqsh") == wanted
    finally:
        os.umask(old)


def test_one_processor(layout, wanted, tmp_path):  # case 44
    before = os.sched_getaffinity(0)
    if len(before) == 1:
        pytest.skip("not run: one processor is all there is")
    os.sched_setaffinity(0, {min(before)})
    try:
        assert sha256(layout, tmp_path / "x.sqsh") == wanted
    finally:
        os.sched_setaffinity(0, before)


def test_variables_of_the_tools(layout, wanted, tmp_path, monkeypatch):
    for name, value in {"TZ": "Asia/Tokyo", "LC_ALL": "tr_TR.UTF-8", "LANG": "C", "HOME": "/no",
                        "TMPDIR": str(tmp_path), "COLUMNS": "1"}.items():
        monkeypatch.setenv(name, value)
    assert sha256(layout, tmp_path / "x.sqsh") == wanted


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can become another user")
def test_another_user(layout, wanted):
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # pytest's own is root's alone
        home = Path(place)
        home.chmod(0o755)
        copy = shutil.copytree(layout, home / "layout")
        (home / "out").mkdir()
        os.chown(home / "out", 65534, 65534)
        child = os.fork()  # so that nothing of this clone need be readable to that user
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                export(copy, home / "out/x.sqsh")
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        subprocess.run(["sha256sum", "--check", "--status", "x.sqsh.sha256"], cwd=home / "out",
                       check=True)
        assert (home / "out/x.sqsh.sha256").read_text().split()[0] == wanted
        assert (home / "out/x.sqsh").stat().st_uid == 65534


@pytest.mark.parametrize("compression", ["none", "gzip", "members", "zstd", "frames"])
def test_what_a_gzip_force_pipeline_reads(compression, wanted, tmp_path):  # case 27
    # Enroot 3's way of reading layers: gzip -d -f passes on what is not gzip's.
    layer = layouts.layer(*TREE, compression=compression)
    passed = subprocess.run(["gzip", "-d", "-f", "-c"], input=layer.blob, capture_output=True,
                            check=True).stdout
    readable = layouts.digest(passed) == layer.diff_id
    assert readable == (compression not in ("zstd", "frames"))
    one = layouts.layout(tmp_path / "one", [layer], CONFIG)
    assert sha256(one, tmp_path / "one.sqsh") == wanted
    if readable:
        plain = replace(layer, blob=passed, media_type=layouts.PLAIN)
        other = layouts.layout(tmp_path / "other", [plain], CONFIG)
        assert sha256(other, tmp_path / "other.sqsh") == wanted
