"""tools/test: what it brings before pytest, what pytest is told, and whose exit code it has."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from apertus_image.bundle import plan as folder
from apertus_image.commands import test as command
from apertus_image.commands.project import PINS
from apertus_image.tree.machine import this_machine
from click.testing import CliRunner


@pytest.fixture
def done(monkeypatch):
    """What tools/test does, in order; nothing of it is done."""
    said = []
    monkeypatch.setattr(command, "choose", lambda *_: SimpleNamespace(name="emitter", why="x"))
    monkeypatch.setattr(command, "bring", lambda names, *_: said.extend(names))
    monkeypatch.setattr(command, "bring_files", lambda files, *_: said.extend(files))
    monkeypatch.setattr(command, "build", lambda _project, name, *_, **_more: said.append(name))
    monkeypatch.setattr(command, "subprocess", SimpleNamespace(
        run=lambda words, **_more: said.append(words) or SimpleNamespace(returncode=0)))
    return said


def test_what_the_tests_need_is_there_before_them(done):
    result = CliRunner().invoke(command.main, ["tests/oci", "-x"])
    assert result.exit_code == 0, result.output
    *brought, built, words = done
    assert brought == ["smoke-image-x86_64", "smoke-image-aarch64",
                       *folder.inputs(PINS, this_machine())]
    assert built == "smoke-image" and words[1:] == ["-m", "pytest", "tests/oci", "-x"]


@pytest.mark.parametrize(("arguments", "spread"), [
    ([], True), (["-x", "--durations=9"], True), (["tests/gone"], False), (["-k", "x"], False)])
def test_the_whole_suite_alone_is_spread(done, arguments, spread):
    CliRunner().invoke(command.main, arguments)
    words = done[-1][3:]
    assert words == [*(command.SPREAD if spread else ()), *arguments]


def pytest_run(folder, *arguments):
    """pytest as tools/test starts it for the whole suite, on tests of the folder."""
    return subprocess.run([sys.executable, "-m", "pytest", *command.SPREAD, *arguments, folder],
                          capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize(("content", "more", "code", "said"), [
    ("def test_a(): pass", (), 0, "1 passed"), ("def test_a(): assert 0", (), 1, "assert 0"),
    ("", (), 5, "no tests ran"), ("def test_a(): pass", ("-n0",), 0, "1 passed")])
def test_spread_it_says_what_failed_and_that_none_ran(tmp_path, content, more, code, said):
    (tmp_path / "test_a.py").write_text(content)
    result = pytest_run(tmp_path, *more)
    assert result.returncode == code and said in result.stdout
    assert ("created: " in result.stdout) == (not more)


@pytest.mark.parametrize("code", [0, 1, 5])  # 5: no test ran
def test_the_exit_code_is_pytests(done, monkeypatch, code):
    monkeypatch.setattr(command, "subprocess", SimpleNamespace(
        run=lambda words, **_more: subprocess.CompletedProcess(words, code)))
    assert CliRunner().invoke(command.main, []).exit_code == code
