"""Where a self-contained folder may be made, what of a clone goes in, and the clone's link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from apertus_image.bundle import make
from apertus_image.commands import bootstrap
from apertus_image.errors import UserError
from click.testing import CliRunner


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_folder_is_prepared_where_there_is_none_or_its_own(tmp_path):
    make.prepare(tmp_path / "new/deep")
    for name in ("0123456789ab", "current", "bin", "store", "var", ".content.0.lock"):
        (tmp_path / "new/deep" / name).mkdir()
    make.prepare(tmp_path / "new/deep")


@pytest.mark.parametrize(("place", "said"), [
    ("full", "something else has the name"),
    ("full/file", "something else has the name"),
    ("dangling", "something else has the name"),
    ("full/file/below", "cannot be written"),
    ("a:b", "cannot be used"),
    ("a;b/c", "cannot be used"),
    ("a?", "cannot be used"),
])
def test_an_unfit_folder_is_refused_before_anything_is_brought(tmp_path, monkeypatch, place, said):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    monkeypatch.setenv("APERTUS_SEED", str(tmp_path))
    monkeypatch.setattr(bootstrap, "prefetch", lambda *_, **__: pytest.fail("brought something"))
    result = CliRunner().invoke(bootstrap.main, [str(tmp_path / place)])
    assert result.exit_code == 1 and said in result.output and "next:" in result.output
    assert names(tmp_path / "full") == ["file"]


def clone(folder: Path) -> Path:
    for name in ("README.md", "tools/build", "tools/apertus_image/commands/build.py", ".venv/x",
                 ".bootstrap/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_a_clone_without_git_does_not_take_the_folder_that_is_made_in_it(tmp_path):
    project = clone(tmp_path / "clone")
    (tmp_path / "link").symlink_to("clone")
    for folder in ("mine/.content.0.part/new", "mine/store/nix/store"):
        (project / folder).mkdir(parents=True)
        (project / folder / "x").touch()
    made = tmp_path / "link/mine"
    assert make._project(project, tmp_path / "copy", made) == ["build"]
    assert names(tmp_path / "copy") == ["README.md", "tools"]
    make._project(project, tmp_path / "other", tmp_path / "elsewhere")  # the control
    assert names(tmp_path / "other") == ["README.md", "mine", "tools"]


def test_a_clone_is_linked_to_its_folder_unless_it_cannot_be(tmp_path):
    project = clone(tmp_path / "clone")
    folder = project / ".bootstrap"
    assert make.link(project, folder)  # made under that very name
    assert not make.link(project, tmp_path)
    assert folder.is_dir() and not folder.is_symlink()
    other = tmp_path / "other"
    other.mkdir()
    for to in (tmp_path / "a", tmp_path / "b"):
        assert make.link(other, to) and os.readlink(other / ".bootstrap") == str(to)
    assert names(other) == [".bootstrap"]
    assert not make.link(tmp_path / "nowhere", tmp_path)


def python(folder: Path, text: str = "") -> None:
    """A folder's python3, which cannot be started without text."""
    (folder / "current/programs").mkdir(parents=True)
    (folder / "current/programs/python3").write_text(text)
    (folder / "current/programs/python3").chmod(0o755 if text else 0o644)


@pytest.mark.parametrize(("starts", "writable", "said"), [
    (True, True, "run on it from now on"),
    (True, False, "APERTUS_BOOTSTRAP='"),
    (False, True, "warning: its programs cannot be started there"),
])
def test_a_folder_that_cannot_be_linked_or_started_is_made_all_the_same(
        tmp_path, monkeypatch, starts, writable, said):
    folder = tmp_path / "my folder"
    python(folder, "#!/bin/sh\n" if starts else "")
    monkeypatch.setenv("APERTUS_SEED", str(tmp_path))
    monkeypatch.setattr(bootstrap, "prefetch", lambda *_, **__: None)
    monkeypatch.setattr(bootstrap, "make", lambda folder, *_, **__: make.Made(
        folder, {"identity": "0" * 64}, True))
    monkeypatch.setattr(bootstrap, "link", lambda *_: writable)
    result = CliRunner().invoke(bootstrap.main, [str(folder)])
    assert (result.exit_code, result.stdout) == (0, f"{folder}\n"), result.output
    assert said in result.stderr.splitlines()[-1]


def test_a_folder_that_is_damaged_does_not_start(tmp_path):
    assert not make.starts(tmp_path)
    for number, (text, good) in enumerate([("#!/bin/sh\n", True), ("#!/bin/sh\nexit 127\n", False),
                                           ("#!/nowhere\n", False)]):
        python(tmp_path / str(number), text)
        assert make.starts(tmp_path / str(number)) is good


def test_no_list_of_folders_can_name_it(tmp_path):
    (tmp_path / "a:b").mkdir()
    (tmp_path / "link").symlink_to("a:b")
    with pytest.raises(UserError, match="cannot be used"):
        make.prepare(tmp_path / "link")
