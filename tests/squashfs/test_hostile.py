"""Exports of images that are hard to import rightly are Enroot's imports, entry for entry."""

from __future__ import annotations

import shutil

import pytest
from apertus_image.errors import UserError
from squashfs import hostile, reference
from support import layouts
from support.exports import export, needs_nix, programs

pytestmark = needs_nix
CONFIG = {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]}
NEEDED = 24 * 2**30


@pytest.fixture
def compared(tmp_path):
    """Export a layout; give what differs from the reference, and the reference."""

    def compare(layers, config=CONFIG, same=None):
        layout = layouts.layout(tmp_path / "layout", layers, config)
        other = layouts.layout(tmp_path / "same", same, config) if same else layout
        (tmp_path / "work").mkdir()
        wanted = reference.imported(other, tmp_path / "work")
        done = export(layout, tmp_path / "out.sqsh")
        got = reference.found(done.path, programs(), tmp_path / "unpacked")
        return reference.differences(got, wanted), wanted

    return compare


def nothing_left(folder):
    return sorted(path.name for path in folder.iterdir() if path.name not in ("layout", "work"))


@pytest.fixture(autouse=True)
def _room(request, tmp_path):
    """What moves gigabytes needs them on the disk."""
    if request.node.get_closest_marker("slow") and shutil.disk_usage(tmp_path).free < NEEDED:
        pytest.skip("not run: no room for files of 8 GiB")


IMPORTED = [pytest.param(name, marks=pytest.mark.slow) if "8 GiB" in name else name
            for name in hostile.IMPORTED]


@pytest.mark.parametrize("name", IMPORTED)
def test_a_hostile_image(name, compared):  # case 11
    differ, wanted = compared(hostile.layers(name))
    assert differ == [] and len(wanted) >= 6


@pytest.mark.parametrize("name", hostile.IMPORTED_BY_US)
def test_what_enroot_stops_at_though_it_is_clear(name, compared):
    image, same = hostile.IMPORTED_BY_US[name]
    differ, _ = compared(hostile.packed(image), same=hostile.packed(same))
    assert differ == []


@pytest.mark.parametrize("name", [
    *hostile.REFUSED, *hostile.REFUSED_BY_US, *hostile.UNTELLABLE])
def test_what_cannot_be_imported_is_refused(name, tmp_path):
    layout = layouts.layout(tmp_path / "layout", hostile.layers(name), CONFIG)
    with pytest.raises(UserError) as caught:
        export(layout, tmp_path / "out.sqsh")
    # Told by its name beforehand, not by mksquashfs or by the check of what it wrote.
    assert caught.value.where is not None and caught.value.what != "mksquashfs failed"
    assert nothing_left(tmp_path) == []


@pytest.mark.parametrize("compression", ["none", "gzip", "members", "zstd", "frames"])
def test_one_tree_however_it_is_packed(compression, compared):  # case 27
    layers = [layouts.layer(*hostile.BASE, compression=compression),
              layouts.layer(layouts.gone("a/sub"), layouts.file("b", "new", 0o4755),
                            compression=compression)]
    differ, wanted = compared(layers)
    assert differ == [] and wanted["/b"].mode == "-rwsr-xr-x" and "/a/sub" not in wanted


def test_layers_packed_in_several_ways(compared):  # case 27
    ways = ["zstd", "none", "gzip", "frames", "members"]
    differ, wanted = compared([layouts.layer(layouts.file(way, way), layouts.file("last", way),
                                             compression=way) for way in ways])
    assert differ == [] and {f"/{way}" for way in ways} < wanted.keys()


@pytest.mark.parametrize("workdir", ["/tmp", "/root", "/new/deep", "/lnk/sub", "/abs", "/afile/x",
                                     "/opt/x/", "/opt//./y", "/dev/shm/w", "/etc", ""])
def test_the_working_directory_is_a_folder_of_enroots(workdir, compared):
    members = [layouts.folder("tmp", 0o1777), layouts.folder("root", 0o700),
               layouts.folder("real", 0o711), layouts.link("lnk", "real"),
               layouts.link("abs", "/real"), layouts.file("afile", "x"),
               layouts.folder("opt", 0o750), layouts.folder("opt/x", 0o700)]
    differ, _ = compared([layouts.layer(*members)], CONFIG | {"WorkingDir": workdir})
    assert differ == []


@pytest.mark.slow
def test_zeros_stored_in_full(tmp_path):  # case 11
    size = (8 << 30) + 1
    layer = layouts.layer(layouts.zero_tail("big", b"start", size), compression="zstd")
    layout = layouts.layout(tmp_path / "layout", [layer], CONFIG)
    done = export(layout, tmp_path / "out.sqsh")
    big = reference.found(done.path, programs(), tmp_path / "unpacked")["/big"]
    (tmp_path / "same").write_bytes(b"start")
    with (tmp_path / "same").open("r+b") as file:
        file.truncate(size)
    assert big.size == size and big.content == reference.content(tmp_path / "same")


def test_the_comparison_sees_what_differs(tmp_path):  # the control
    one, other = ({"/a": reference.Entry("-rw-r--r--", size=1, content=digest)}
                  for digest in ("x", "y"))
    assert len(reference.differences(one, other)) == 1
    assert len(reference.differences(one, {})) == 1
    assert len(reference.differences({}, one)) == 1
    changed = {"/a": one["/a"]._replace(mode="-rw-r-----")}
    assert len(reference.differences(one, changed)) == 1
