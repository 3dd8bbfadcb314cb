"""tools/test: what it brings before pytest, what pytest is told, and whose exit code it has."""

from __future__ import annotations

import subprocess
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
    assert built == "smoke-image" and words[-2:] == ["tests/oci", "-x"]


@pytest.mark.parametrize("code", [0, 1, 5])  # 5: no test ran
def test_the_exit_code_is_pytests(done, monkeypatch, code):
    monkeypatch.setattr(command, "subprocess", SimpleNamespace(
        run=lambda words, **_more: subprocess.CompletedProcess(words, code)))
    assert CliRunner().invoke(command.main, []).exit_code == code
