"""Publication: whole files, readable by whom the profile says, never one replaced."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.release.publish import point, publish


@pytest.fixture
def files(tmp_path):
    made = tmp_path / "made"
    (made / "v").mkdir(parents=True)
    (made / "a").write_text("a")
    (made / "v/b").write_text("b")
    return {"a": made / "a", "v/b": made / "v/b"}


def modes(folder):
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
            for path in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize(("readable", "file", "folder"),
                         [("all", 0o444, 0o2755), ("group", 0o440, 0o2750)])
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_modes_are_the_profiles_whatever_the_umask(files, tmp_path, readable, file, folder, mask):
    old = os.umask(mask)
    try:
        publish(files, tmp_path / "out", readable)
    finally:
        os.umask(old)
    assert modes(tmp_path / "out") == {".": folder, "a": file, "v": folder, "v/b": file}


def test_folders_it_makes_on_the_way_can_be_entered_too(files, tmp_path):
    old = os.umask(0o077)
    try:
        publish(files, tmp_path / "team/images", "all")
    finally:
        os.umask(old)
    assert modes(tmp_path / "team") == {
        ".": 0o2755, "images": 0o2755, "images/a": 0o444, "images/v": 0o2755, "images/v/b": 0o444}


def test_a_folder_that_others_may_write_to_stays_so(files, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o770)
    publish(files, out, "group")
    assert modes(out)["."] == 0o2770
    publish(files, out, "all")
    assert modes(out)["."] == 0o2775


def test_a_folder_of_a_group_one_is_not_in_takes_what_all_may_read(files, tmp_path, monkeypatch):
    def refuse(*_arguments, **_options):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link(os.link))
    monkeypatch.setattr(shutil, "chown", refuse)
    publish(files, tmp_path / "out", "all")
    assert (tmp_path / "out/a").read_text() == "a"
    with pytest.raises(UserError, match="cannot be published"):
        publish(files, tmp_path / "group", "group")


def no_link(link):
    """os.link, but not between two file systems: from outside of the published folder."""
    def linked(source, target):
        if Path(source).parent.suffix != ".part":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, target)
    return linked


def test_another_user_can_read_them_and_not_change_them(files):
    if os.geteuid() != 0:
        pytest.skip("not run: becoming another user needs root")
    # Not below pytest's own folder, which others cannot enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        store = Path(folder, "store")
        publish(files, store, "all")

        def as_nobody(*command):
            return subprocess.run(command, user="nobody", capture_output=True, text=True)

        assert as_nobody("cat", store / "a", store / "v/b").stdout == "ab"
        assert as_nobody("rm", "-f", store / "a").returncode != 0
        assert as_nobody("sh", "-c", f"echo x > {store}/a").returncode != 0


def test_again_is_no_fault_and_another_file_stays(files, tmp_path):
    first = publish(files, tmp_path / "out")
    before = first[0].stat().st_ino
    assert publish(files, tmp_path / "out") == first and first[0].stat().st_ino == before
    other = {"a": tmp_path / "other", "v/b": files["v/b"]}
    other["a"].write_text("other")
    with pytest.raises(UserError, match="other bytes"):
        publish(other, tmp_path / "out")
    assert first[0].read_text() == "a"
    assert not [path for path in (tmp_path / "out").rglob(".*")]


def test_what_a_run_killed_after_a_name_was_given_has_left_is_removed(files, tmp_path):
    out = tmp_path / "out"
    publish(files, out)
    for each in (out / "a", out / "v/b"):
        lock = each.with_name(f".{each.name}.0123456789ab.lock")
        lock.touch()
        lock.with_suffix(".part").mkdir()
        os.link(each, lock.with_suffix(".part") / "file")
    another = out / ".other.0123456789ab.lock"  # a publication of other files
    another.touch()
    (out / "a").unlink()
    (out / "a").write_text("his")
    publish(files, out, stays=lambda name: name == "a")
    assert list(out.rglob(".*")) == [another] and (out / "a").read_text() == "his"


def test_a_folder_that_cannot_be_made_is_one_error(files, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be published"):
        publish(files, tmp_path / "file/out")


def test_the_pointer_is_moved_at_once(files, tmp_path):
    out = tmp_path / "out"
    publish(files, out)
    point(out, "latest", "a")
    (out / "b").write_text("b")
    point(out, "latest", "b")
    assert os.readlink(out / "latest") == "b" and (out / "latest").read_text() == "b"
    assert sorted(path.name for path in out.iterdir()) == ["a", "b", "latest", "v"]


def test_the_pointer_takes_the_path_that_a_release_prints(files, tmp_path):
    out, link = tmp_path / "out", tmp_path / "link"
    publish(files, out)
    link.symlink_to(out)
    for given in (out / "a", link / "a"):
        point(out, "latest", str(given))
        assert os.readlink(out / "latest") == "a"
    with pytest.raises(UserError, match="no such file is published"):
        point(out, "latest", str(tmp_path / "a"))


def test_a_pointer_to_an_image_leads_to_no_record(files, tmp_path):
    out = tmp_path / "out"
    publish(files, out)
    (out / "x.sqsh").write_text("")
    with pytest.raises(UserError, match="no image"):
        point(out, "latest.sqsh", "a")
    assert not (out / "latest.sqsh").is_symlink()
    point(out, "latest.sqsh", "x.sqsh")
    point(out, "latest.json", "a")
    for pointer in ("latest.sqsh", "other.sqsh"):  # nor to a pointer, itself above all
        with pytest.raises(UserError, match="no such file"):
            point(out, pointer, "latest.sqsh")
    assert os.readlink(out / "latest.sqsh") == "x.sqsh"


@pytest.mark.parametrize(("name", "file"), [
    ("a", "a"), ("v", "a"), ("../latest", "a"), ("", "a"),
    ("latest", "v/b"), ("latest", "v"), ("latest", "../made/a"), ("latest", "none"),
    ("latest", "/etc/passwd"),
])
def test_the_pointer_replaces_nothing_published_and_leads_nowhere_else(files, tmp_path, name, file):
    out = tmp_path / "out"
    publish(files, out)
    before = sorted(out.rglob("*"))
    with pytest.raises(UserError, match="no such file is published|name is taken"):
        point(out, name, file)
    assert sorted(out.rglob("*")) == before and (out / "a").read_text() == "a"
    assert not (out / "a").is_symlink()
