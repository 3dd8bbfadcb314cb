"""Every command: help with an example, clear errors, nothing but the result on stdout."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess

import pytest
from apertus_image.errors import UserError, raise_all
from click.testing import CliRunner
from support import images

COMMANDS = images.PROJECT / "tools/apertus_image/commands"
NAMES = sorted(path.stem.replace("_", "-") for path in COMMANDS.glob("*.py")
               if path.stem not in ("__init__", "images", "project", "registries"))


def command(name):
    return importlib.import_module(f"apertus_image.commands.{name.replace('-', '_')}").main


@pytest.mark.parametrize("name", NAMES)
def test_help_has_an_example_and_the_command_starts_from_a_clone(name):
    result = CliRunner().invoke(command(name), ["--help"])
    assert result.exit_code == 0 and f"tools/{name}" in result.output
    script = images.PROJECT / "tools" / name
    assert os.access(script, os.X_OK) and f" {name} " in script.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_it_takes_the_option_that_tools_run_tells_where_something_is_missing(name):
    assert CliRunner().invoke(command(name), ["--setup", "--help"]).exit_code == 0
    if name != "test":  # which hands pytest all that it does not know
        assert CliRunner().invoke(command(name), ["--setpu", "--help"]).exit_code == 2


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_names_it(name):
    assert f"tools/{name}" in (images.PROJECT / "README.md").read_text()


@pytest.mark.parametrize("name", ["build", "prefetch"])
def test_an_unknown_image_is_one_clear_error(name, monkeypatch):
    result = CliRunner().invoke(command(name), ["no-such-image", "--maker", "emitter"])
    assert result.exit_code == 1
    assert "unknown image" in result.output and "apertus-image-aarch64" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("name", "options"), [
    ("build", ["--source-at", "/srv/app"]), ("build", ["--source-at", ""]),
    ("build", ["--allow-dirty"]), ("release", ["--source-at", "/srv/app"]),
    ("release", ["--source-at", "/opt/nemo-rl"]), ("release", ["--source-at", ""]),
])
def test_what_is_about_a_source_is_refused_without_one(name, options, tmp_path):
    result = CliRunner().invoke(command(name), options)
    assert result.exit_code == 1
    assert f"{options[0]} is about --source, which is not given" in result.output
    # With one, it is that which is looked at.
    result = CliRunner().invoke(command(name), ["--source", str(tmp_path), "--source-at", "/x/"])
    assert result.exit_code == 1 and "no plain absolute path" in result.output


def test_gone_is_about_debian():
    result = CliRunner().invoke(command("lock"), ["wheels", "--gone"])
    assert result.exit_code == 1 and "tools/lock debian --gone" in result.output


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
def test_build_prints_the_path_alone(tmp_path):
    result = subprocess.run(
        [images.PROJECT / "tools/build", "smoke-image", "--maker", "emitter", "--json",
         "--out-link", tmp_path / "link"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["maker"] == "emitter" and re.match("layers are made by emitter", result.stderr)
    assert (tmp_path / "link").resolve() == images.built("smoke-image").resolve()


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
def test_a_store_of_its_own_says_what_is_missing(tmp_path):
    result = subprocess.run(
        [images.PROJECT / "tools/prefetch", "smoke-image", "--list", "--maker", "emitter",
         "--store", tmp_path / "empty"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) > 50 and all(re.fullmatch(r" *\d+  \S+", line) for line in lines)


def test_setup_says_what_is_missing_and_changes_nothing(tmp_path):
    clone = tmp_path / "clone"
    (clone / "tools").mkdir(parents=True)
    for name in ("run", "setup", "build"):
        shutil.copy(images.PROJECT / "tools" / name, clone / "tools")
    (clone / "requirements.lock").write_text("x")
    before = sorted(clone.rglob("*"))
    result = subprocess.run([clone / "tools/build"], capture_output=True, text=True)
    assert result.returncode == 3
    assert ".venv" in result.stderr and "run: tools/setup" in result.stderr
    assert sorted(clone.rglob("*")) == before


def setup_of(clone, *arguments):
    """tools/setup in a clone that has nothing, with programs that only say what they were told."""
    (clone / "tools").mkdir(parents=True, exist_ok=True)
    shutil.copy(images.PROJECT / "tools/setup", clone / "tools")
    (clone / "requirements.lock").write_text("x")
    fakes = clone / "fakes"
    fakes.mkdir(exist_ok=True)
    for name in ("apt-get", "sudo", "python3", "python"):
        (fakes / name).write_text(f'#!/bin/sh\necho {name} "$@" >>"{clone}/called"\nexit 9\n')
        (fakes / name).chmod(0o755)
    result = subprocess.run(["sh", clone / "tools/setup", *arguments], capture_output=True,
                            text=True, env={"PATH": f"{fakes}:{os.environ['PATH']}"})
    called = clone / "called"
    return result, called.read_text() if called.exists() else ""


@pytest.mark.parametrize("arguments", [("--tsets",), ("--tests", "--check"), ("",), ("-x",)])
def test_setup_installs_nothing_for_a_word_it_does_not_know(tmp_path, arguments):
    result, called = setup_of(tmp_path, *arguments)
    assert (result.returncode, result.stdout, called) == (2, "", "")
    for words in ("error: tools/setup takes", "expected: --tests", f"got:      {arguments[0]}",
                  "next:"):
        assert words in result.stderr


def test_setup_tells_its_options_and_installs_nothing(tmp_path):
    result, called = setup_of(tmp_path, "--help")
    assert (result.returncode, result.stderr, called) == (0, "", "")
    for option in ("--tests", "--registry", "--check", "--help"):
        assert f"tools/setup {option}" in result.stdout
    _, called = setup_of(tmp_path)
    assert called, "without a word something would be installed"


def test_a_self_contained_folder_that_is_none_is_one_error(tmp_path):
    result = subprocess.run([images.PROJECT / "tools/edf", "--help"], capture_output=True,
                            text=True, env=os.environ | {"APERTUS_BOOTSTRAP": str(tmp_path)})
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.splitlines()[0] == (
        f"error: APERTUS_BOOTSTRAP names no folder of tools/bootstrap: {tmp_path}")


def test_errors_say_what_where_and_what_next():
    text = str(UserError("it broke", where="here", expected=1, got=2, next_step="mend it"))
    assert text.splitlines() == ["it broke", "  where:    here", "  expected: 1", "  got:      2",
                                 "  next:     mend it"]
    raise_all([], "nothing")
    with pytest.raises(UserError, match="2 faults"):
        raise_all([UserError("a"), UserError("b")], "{n} faults")
