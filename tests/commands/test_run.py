"""tools/run: which Python a clone's command is started with, and what is said where none will."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.bundle import commands
from apertus_image.tree.machine import MACHINES, this_machine
from support import images

OTHER = next(each for each in MACHINES.values() if each != this_machine())
LOCKS = ("bundle", "toolchain", "tools")
# In Python's place: who was started, and how.
PYTHON = '#!/bin/sh\necho "$0"\nprintf "%s\\n" "$@"\nenv\n'


@pytest.fixture
def clone(tmp_path):
    """A clone with nothing but what starts a command; seed.sh only says that it was called."""
    clone = tmp_path / "a clone"
    (clone / "tools/apertus_image/bundle").mkdir(parents=True)
    for name in ("run", "setup", "bootstrap", "build", "lock"):
        shutil.copy(images.PROJECT / "tools" / name, clone / "tools")
    (clone / "tools/apertus_image/bundle/seed.sh").write_text('echo "seed $@"\n')
    (clone / "requirements.lock").write_text("x")
    pins(clone)
    return clone


def pins(project: Path, text: str = "") -> None:
    (project / "nix/pins").mkdir(parents=True, exist_ok=True)
    for lock in LOCKS:
        (project / f"nix/pins/{lock}.json").write_text(lock + text)


def folder(place: Path, machine=None) -> Path:
    """A self-contained folder with a Python that tells what it is started with."""
    version = place / "0123456789ab"
    (version / "programs").mkdir(parents=True)
    (version / "programs/python3").write_text(PYTHON)
    (version / "programs/python3").chmod(0o755)
    pins(version / "project")
    commands.environment(version, "0123456789ab", machine or this_machine())
    (place / "current").symlink_to(version.name)
    return place


def venv(clone: Path) -> None:
    """A .venv that is another machine's or of another lock, so that it will not do."""
    (clone / ".venv/bin").mkdir(parents=True)
    (clone / ".venv/bin/python").write_text("#!/bin/sh\nexit 1\n")
    (clone / ".venv/bin/python").chmod(0o755)


def run(clone: Path, name: str, *arguments: str, **variables: str):
    return subprocess.run([clone / "tools" / name, *arguments], capture_output=True, text=True,
                          cwd=clone.parent, env={"PATH": os.environ["PATH"]} | variables)


def test_a_clones_own_folder_is_used_also_beside_a_venv_that_will_not_do(clone, tmp_path):
    (clone / ".bootstrap").symlink_to(folder(tmp_path / "folder"))
    for _ in range(2):
        said = run(clone, "build", "x").stdout.splitlines()
        assert said[0] == f"{tmp_path}/folder/0123456789ab/programs/python3"
        assert said[1:5] == ["-P", "-m", "apertus_image.commands.build", "x"]
        if not (clone / ".venv").exists():
            venv(clone)


@pytest.mark.parametrize("lost", ["link", "folder", "nothing"])
def test_bootstrap_never_runs_on_the_folder_that_it_is_to_make(clone, tmp_path, lost):
    """It may be damaged, another machine's or of an older commit; or gone with its file system."""
    made = folder(tmp_path / "folder")
    (clone / ".bootstrap").symlink_to(made)
    if lost == "folder":
        shutil.rmtree(made)
    elif lost == "link":
        (clone / ".bootstrap").unlink()
    for variables in ({}, {"APERTUS_BOOTSTRAP": str(made)}):
        result = run(clone, "bootstrap", "a b", **variables)
        assert result.stdout == f"seed {clone} a b\n", result.stderr


def test_a_folder_that_is_gone_is_said_with_what_makes_it(clone, tmp_path):
    (clone / ".bootstrap").symlink_to(tmp_path / "gone")
    result = run(clone, "build")
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.splitlines() == [
        f"error: this clone's link names no folder of tools/bootstrap: {clone}/.bootstrap",
        "  next:     tools/bootstrap DIR makes one"]


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("by", ["link", "variable"])
def test_a_folder_of_other_pins_is_refused(clone, tmp_path, lock, by):
    """Its mksquashfs would write other bits than the record says, or a package would be missing."""
    made = folder(tmp_path / "folder")
    variables = {"APERTUS_BOOTSTRAP": str(made)} if by == "variable" else {}
    if by == "link":
        (clone / ".bootstrap").symlink_to(made)
    assert run(clone, "build", **variables).returncode == 0  # the control
    (clone / f"nix/pins/{lock}.json").write_text("newer")
    result = run(clone, "build", **variables)
    assert (result.returncode, result.stdout) == (3, "")
    assert "of other pins than this clone's" in result.stderr and "next:" in result.stderr


def test_another_machines_folder_is_refused(clone, tmp_path):
    made = folder(tmp_path / "folder", OTHER)
    result = run(clone, "build", APERTUS_BOOTSTRAP=str(made))
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr == (f"error: this folder is for {OTHER.name}, and this machine is "
                             f"{platform.machine()}: {made}/0123456789ab\n")


@pytest.mark.parametrize("sign", [":", ";", "?"])
def test_a_folder_whose_path_means_something_else_is_refused(clone, tmp_path, sign):
    result = run(clone, "build", APERTUS_BOOTSTRAP=str(folder(tmp_path / f"a{sign}b")))
    assert (result.returncode, result.stdout) == (3, "") and "cannot be used" in result.stderr


def test_odd_paths_and_surroundings_lead_nowhere_else(clone, tmp_path):
    place = "o'd $x \"%s\" `é`"
    folder(tmp_path / place)
    led = {name: str(tmp_path) for name in (
        "CDPATH", "LD_AUDIT", "LD_LIBRARY_PATH", "NIX_CONFIG", "NIX_PATH", "NIX_REMOTE",
        "NIX_STORE", "NIX_STORE_DIR", "PYTHONEXECUTABLE", "PYTHONHOME", "PYTHONINSPECT",
        "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONPLATLIBDIR")}
    result = run(clone, "build", APERTUS_BOOTSTRAP=place, **led)
    said = result.stdout.splitlines()
    assert said[0] == f"{tmp_path}/{place}/0123456789ab/programs/python3", result.stderr
    variables = dict(line.split("=", 1) for line in said[4:] if "=" in line)
    assert variables["PYTHONPATH"] == f"{clone}/tools"
    assert variables["APERTUS_STORE"] == f"{tmp_path}/{place}/store"
    assert not (led.keys() - {"PYTHONPATH"}) & variables.keys()


def test_what_lies_where_a_command_is_called_from_is_no_module(tmp_path):
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong one')")
    result = subprocess.run([images.PROJECT / "tools/edf", "--help"], capture_output=True,
                            text=True, cwd=tmp_path)
    assert result.returncode == 0 and "Usage" in result.stdout, result.stderr


def test_what_needs_more_is_said_with_its_set_up(clone, tmp_path):
    (clone / ".bootstrap").symlink_to(folder(tmp_path / "folder"))
    result = run(clone, "lock")
    assert result.returncode == 3 and "tools/lock --setup" in result.stderr
