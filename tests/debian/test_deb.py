"""Reading packages: every compression, foreign and damaged files, dpkg-deb as referee."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.debian.deb import control_files, data_members, open_member
from apertus_image.errors import UserError
from support import debs

MEMBERS = [
    debs.folder("usr"), debs.file("usr/run", "#!/bin/sh\n", 0o755), debs.link("usr/l", "run"),
    debs.hard("usr/h", "./usr/run"), debs.file("usr/" + "n" * 120, "long name\n"),
    debs.file("usr/é", "é"), debs.file("usr/big", random.Random(1).randbytes(1_000_001)),
]


def read(pin):
    return [(info.name, info.type, info.mode, info.linkname, data.read() if data else None)
            for info, data in data_members(Path(pin["path"]))]


@pytest.mark.parametrize("compression", debs.PACK)
def test_every_compression_gives_the_same(tmp_path, compression):  # case 43
    pin = debs.make(tmp_path, "pkg", MEMBERS, compression=compression,
                    scripts={"postinst": "#!/bin/sh\n"})
    found = {name.removeprefix("./"): (mode, target, data)
             for name, _, mode, target, data in read(pin)}
    assert list(found)[1:] == [path for path, _, _ in MEMBERS]
    for path, data, fields in MEMBERS:
        assert found[path][0] == fields["mode"]
        assert found[path][1] == fields.get("linkname", "")
        assert found[path][2] == (None if "type" in fields else data)
    control = control_files(Path(pin["path"]))
    assert set(control) == {"control", "postinst"}
    assert control["control"].startswith(b"Package: pkg\n")


def test_members_of_odd_length_are_padded(tmp_path):
    for length in range(4):
        file = tmp_path / f"{length}.deb"
        file.write_bytes(debs.ar({
            "debian-binary": b"2.0\n", "extra": b"x" * length,
            "control.tar": debs.tar([debs.file("control", "Package: p\n")]),
            "data.tar": debs.tar([debs.file("a", "1")]),
        }))
        assert control_files(file) == {"control": b"Package: p\n"}
        assert [info.name for info, _ in data_members(file)] == ["./a"]


def test_names_of_members_may_end_in_a_slash(tmp_path):  # as GNU ar writes them
    file = tmp_path / "x.deb"
    file.write_bytes(debs.ar({"debian-binary/": b"2.0\n",
                              "data.tar/": debs.tar([debs.file("a", "1")])}))
    assert [data.read() for _, data in data_members(file)] == [b"1"]


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="not run: there is no dpkg-deb")
@pytest.mark.parametrize("compression", ["gzip", "xz"])
def test_dpkg_deb_reads_what_these_tests_write_and_the_reverse(tmp_path, compression):
    pin = debs.make(tmp_path, "pkg", MEMBERS, compression=compression[:2])
    raw, built = tmp_path / "raw", tmp_path / "built.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", pin["path"], raw], check=True)
    assert (raw / "usr/big").read_bytes() == MEMBERS[-1][1]
    subprocess.run(["dpkg-deb", "--root-owner-group", f"-Z{compression}", "--build", raw, built],
                   check=True, capture_output=True)
    ours = {name.rstrip("/"): (data, target) for name, _, _, target, data in read(pin)}
    theirs = {name.rstrip("/"): (data, target)
              for name, _, _, target, data in read({"path": str(built)})}
    for name in ("./usr/l", "./usr/é", "./usr/big", "./usr/" + "n" * 120):
        assert theirs[name] == ours[name]


def refusal(file, data):
    file.write_bytes(data)
    with pytest.raises(UserError) as error:
        with open_member(file, "data.tar") as tar:
            list(tar)
    assert file.name in str(error.value)
    return error.value.what


def test_what_is_no_package(tmp_path):
    assert refusal(tmp_path / "x.deb", b"<html>no such page</html>") == "not a Debian package"
    assert refusal(tmp_path / "x.deb", b"") == "not a Debian package"


def test_a_package_without_data(tmp_path):
    whole = debs.ar({"debian-binary": b"2.0\n", "control.tar": debs.tar([])})
    assert refusal(tmp_path / "x.deb", whole) == "a package lacks a member"


def test_a_damaged_header(tmp_path):
    whole = debs.ar({"debian-binary": b"2.0\n", "data.tar": debs.tar([])})
    assert refusal(tmp_path / "x.deb", whole[:100]) == "a Debian package is damaged"
    assert refusal(tmp_path / "x.deb", whole.replace(b"`\n", b"``")) == (
        "a Debian package is damaged")


def test_an_unknown_compression(tmp_path):
    whole = debs.ar({"debian-binary": b"2.0\n", "data.tar.lzma": b"x"})
    assert refusal(tmp_path / "x.deb", whole) == "a package is compressed in an unknown way"


@pytest.mark.parametrize("compression", debs.PACK)
def test_a_package_cut_short_is_a_fault_of_the_file(tmp_path, compression):
    pin = debs.make(tmp_path, "pkg", [debs.file("big", random.Random(1).randbytes(100_000))],
                    compression=compression)
    file = Path(pin["path"])
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="damaged"):
        list(data_members(file))


@pytest.mark.parametrize("compression", debs.PACK)
def test_whatever_is_damaged_is_a_fault_of_the_file(tmp_path, compression):
    pin = debs.make(tmp_path, "pkg", [debs.file("a", "a" * 5000), debs.link("l", "a"),
                                      debs.hard("h", "./a")], compression=compression)
    file, chance, told = Path(pin["path"]), random.Random(1), 0
    whole = file.read_bytes()
    for _ in range(60):
        broken = bytearray(whole)
        for place in chance.sample(range(len(whole)), chance.choice([1, 3, 30])):
            broken[place] = chance.randrange(256)
        file.write_bytes(broken)
        try:
            control_files(file)
            list(data_members(file))
        except UserError as error:
            assert error.where.startswith(file.name)
            told += 1
    assert told > 15


def test_a_full_disk_is_no_fault_of_the_file(tmp_path):
    pin = debs.make(tmp_path, "pkg", [debs.file("a")])
    with pytest.raises(OSError, match="No space left"), open_member(
            Path(pin["path"]), "data.tar"):
        raise OSError(errno.ENOSPC, "No space left on device")
