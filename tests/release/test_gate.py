"""The release gate: every finding in one message, nothing written (cases 31 and 32)."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.release.gate import checkout, gate
from support.checkouts import cloned, commit, git, nested, submodule

ROOT = Path(__file__).parents[2]
PINS = [f"nix/pins/{file.name}" for pattern in ("*.json", "*.packages", "requirements.in")
        for file in (ROOT / "nix/pins").glob(pattern)]
pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix-instantiate"), reason="not run: Nix is not here"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with both checkouts, and what they were cloned from."""
    folder = tmp_path_factory.mktemp("made")
    outer = nested(folder)
    for name in ("flake.nix", "flake.lock", *PINS):
        (outer / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, outer / name)
    commit(outer)
    for name in ("project", "source"):
        cloned(outer, folder / name)
    return folder


@pytest.fixture
def project(made, tmp_path):
    """A clone with this project's flake and pins, and a submodule that has one itself."""
    return shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True) / "project"


@pytest.fixture
def source(project):
    """A user's checkout, of the same shape."""
    return project.with_name("source")


def refused(*arguments, **options) -> str:
    with pytest.raises(UserError) as error:
        gate(*arguments, **options)
    return str(error.value)


def state_of(folder: Path) -> dict[str, tuple]:
    """All that a write would change: names, sizes, times; times of access left out."""
    return {str(file): (file.lstat().st_size, file.lstat().st_mtime_ns, file.lstat().st_mode)
            for file in folder.rglob("*")}


def test_what_is_clean_passes_and_names_every_commit(project, source):
    result = gate(project, [source])
    assert not result.dirty and result.project.findings == []
    assert result.project.commit == git(project, "rev-parse", "HEAD")
    assert result.sources[0].submodules == {
        "mod": git(source / "mod", "rev-parse", "HEAD"),
        "mod/deep": git(source / "mod/deep", "rev-parse", "HEAD")}


def dirty_file(folder):
    (folder / "a.py").write_text("other\n")
    return "a.py"


def untracked_file(folder):
    (folder / "new.py").write_text("new\n")
    return "new.py"


def submodule_at_another_commit(folder):
    commit(folder / "mod")
    return "mod"


def submodule_not_checked_out(folder):
    git(folder, "submodule", "--quiet", "deinit", "--force", "mod")
    return "mod"


def submodule_dirty(folder):
    (folder / "mod/i.py").write_text("other\n")
    return "mod/i.py"


def submodule_with_an_untracked_file(folder):
    (folder / "mod/new.py").write_text("new\n")
    return "mod/new.py"


def nested_submodule_dirty(folder):
    (folder / "mod/deep/d.py").unlink()
    return "mod/deep/d.py"


def nested_submodule_not_checked_out(folder):
    git(folder / "mod", "submodule", "--quiet", "deinit", "--force", "deep")
    return "mod/deep"


VARIANTS = [dirty_file, untracked_file, submodule_at_another_commit, submodule_not_checked_out,
            submodule_dirty, submodule_with_an_untracked_file, nested_submodule_dirty,
            nested_submodule_not_checked_out]


@pytest.mark.parametrize("change", VARIANTS, ids=lambda change: change.__name__)
@pytest.mark.parametrize("where", ["project", "source"])
def test_what_is_not_its_commits_is_refused_and_named(project, source, change, where):  # case 32
    folder = {"project": project, "source": source}[where]
    named = change(folder)
    said = refused(project, [source])
    assert re.search(rf"where: +{re.escape(str(folder / named))}\b", said), said
    assert "next:" in said
    if where == "source":
        with pytest.raises(UserError):
            checkout(source)


@pytest.mark.parametrize("change", VARIANTS, ids=lambda change: change.__name__)
def test_allowed_dirt_passes_and_is_said(project, source, change):
    change(source)
    result = gate(project, [source], allow_dirty=True)
    assert result.dirty and not result.project.dirty and result.sources[0].dirty
    assert checkout(source, allow_dirty=True).dirty


def test_ignored_files_are_no_dirt(project, source):
    for folder in (project, source, source / "mod"):
        (folder / "x.log").write_text("ignored")
    assert not gate(project, [source]).dirty


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_an_input_changed_in_the_flake_alone_is_named_offline(project, monkeypatch):  # case 31
    edit(project / "flake.nix", "github:nlewo/nix2container/", "github:someone/else/")
    commit(project)
    before = state_of(project)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for allow_dirty in (False, True):
        said = refused(project, allow_dirty=allow_dirty)
        assert "input nix2container" in said
        assert "declared: github:someone/else/" in said
        assert "locked: github:nlewo/nix2container/" in said
    assert state_of(project) == before


def test_a_checkout_that_got_into_the_lock_is_named(project, source):
    edit(project / "flake.nix", 'follows = "";', f'url = "path:{source}";')
    edit(project / "flake.lock", '"source": []', '"source": "source"')
    edit(project / "flake.lock", '"root": {', '"source": {"flake": false, "original": {"type": '
         f'"path", "path": "{source}"}}, "locked": {{"type": "path", "path": "{source}", '
         '"narHash": "sha256-x"}}, "root": {')
    commit(project)
    said = refused(project)
    assert "of one machine" in said and "input source" in said and "--source DIR" in said


def test_an_unpinned_input_is_named(project):
    text = (project / "flake.lock").read_text()
    (project / "flake.lock").write_text(re.sub(r' *"narHash": .*\n', "", text))
    commit(project)
    assert "not pinned" in refused(project) and "no narHash" in refused(project)


def test_pins_older_than_their_requirements_are_named(project):
    for name in ("requirements.in", "userland.packages"):
        with (project / "nix/pins" / name).open("a") as file:
            file.write("one-more\n")
    commit(project)
    said = refused(project)
    assert "2 findings" in said
    assert "wheels.json, made from requirements.in" in said and "userland.json" in said
    assert "tools/lock wheels" in said


@pytest.mark.parametrize("text", ["{ inputs = ", "{ inputs.x.url = throw \"no\"; }"])
def test_a_flake_that_cannot_be_read_is_one_finding(project, text):
    (project / "flake.nix").write_text(text)
    commit(project)
    assert "flake.nix cannot be read" in refused(project)


def test_everything_is_told_in_one_message(project, source):
    edit(project / "flake.nix", "github:nlewo/nix2container/", "github:someone/else/")
    (project / "nix/pins/wheels.json").unlink()
    for change in (untracked_file, nested_submodule_dirty):
        change(source)
    said = refused(project, [source])
    for part in ("6 findings", "someone/else", "wheels.json", str(source / "new.py"),
                 str(source / "mod/deep/d.py"), str(project / "flake.nix")):
        assert part in said, said


def test_nothing_is_written(project, source):
    for folder in (project, source):
        os.utime(folder / "a.py")  # git would refresh its index
    before = state_of(project), state_of(source)
    gate(project, [source])
    assert (state_of(project), state_of(source)) == before


def test_two_submodules_of_one_repository(project, tmp_path):
    submodule(project, tmp_path / "deepest", "again")
    result = gate(project)
    assert result.project.submodules["again"] == result.project.submodules["mod/deep"]
    (project / "again/d.py").write_text("other\n")
    assert str(project / "again/d.py") in refused(project)


def test_what_is_no_checkout_is_refused_even_where_dirt_is_allowed(project, tmp_path):
    (tmp_path / "plain").mkdir()
    assert "not the top folder" in refused(project, [tmp_path / "plain"], allow_dirty=True)
