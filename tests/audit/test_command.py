"""The command: its forms, and one clear error for what it cannot do."""

from __future__ import annotations

import json
import os

import pytest
from apertus_image.commands.audit import main
from click.testing import CliRunner
from support.images import PROJECT
from support.layouts import file, layer, layout


@pytest.fixture
def pair(tmp_path):
    """Two layouts that differ."""
    return [str(layout(tmp_path / name, [layer(file("a", name))])) for name in ("old", "new")]


def run(*arguments, **options):
    return CliRunner().invoke(main, list(arguments), **options)


def test_text_says_old_and_new_and_ends_with_the_verdict(pair):
    result = run(*pair)
    lines = result.stdout.splitlines()
    assert result.exit_code == 20
    assert lines[0] == f"old: {pair[0]} (layout)" and lines[-1].endswith("(exit code 20)")
    assert "\x1b" not in result.stdout and "\x1b[" in run(*pair, color=True).stdout
    assert any("+new" in line for line in lines)


@pytest.mark.parametrize(("form", "starts"), [
    ("--json", "{"), ("--markdown", "**dependency layers"), ("--html", "<!doctype html>")])
def test_each_form_is_all_of_stdout(pair, form, starts):
    result = run(*pair, form)
    assert result.exit_code == 20 and result.stdout.startswith(starts) and not result.stderr
    if form == "--json":
        assert json.loads(result.stdout)["difference"]["entry"] == "/a"


def test_two_readings_give_the_same_json(pair):
    assert run(*pair, "--json").stdout == run(*pair, "--json").stdout


@pytest.mark.parametrize("arguments", [
    [], ["HEAD"], ["HEAD", "HEAD", "HEAD"], ["--check", "HEAD", "HEAD"], ["--check", "--html"],
    ["no-such-thing", "HEAD"], ["--check", str(PROJECT / "tests")]])
def test_what_cannot_be_done_is_one_error(arguments):
    result = run(*arguments)
    assert result.exit_code in (1, 2) and "rror: " in result.stderr and not result.stdout
    assert "Traceback" not in result.output


def test_only_a_revision_can_be_checked(pair):
    result = run("--check", pair[0])
    assert result.exit_code == 1 and "tools/verify checks artefacts" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="not run: root may read everything")
def test_a_file_that_may_not_be_read_is_one_error(tmp_path):
    secret = tmp_path / "x.json"
    secret.write_text("{}")
    secret.chmod(0)
    result = run(str(secret), str(secret))
    assert result.exit_code == 1 and "cannot be read" in result.stderr


def test_no_room_for_a_revision_is_one_error(monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device", "/tmp/x")
    monkeypatch.setattr("apertus_image.audit.subject._extract", full)
    result = run("HEAD", "HEAD")
    assert result.exit_code == 1 and "No space left" in result.stderr and "TMPDIR" in result.stderr
