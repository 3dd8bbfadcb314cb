"""tools/release's options and its status, without a release."""

from __future__ import annotations

import json

import pytest
from apertus_image.commands.release import main
from apertus_image.errors import UserError
from apertus_image.release.state import Done, Folder
from click.testing import CliRunner


@pytest.fixture
def site(tmp_path):
    file = tmp_path / "site.yaml"
    file.write_text(f"image: smoke-image\nscratch: {tmp_path}/scratch\n"
                    f"publish: {{folder: {tmp_path}/published}}\n")
    folder = Folder(tmp_path / "scratch/releases/one")
    folder.make()
    folder.write("build", Done({}, "", {"started": 1.0, "ended": 3.0, "attempts": 2}))
    return file


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


def test_a_profile_may_stand_before_or_after_a_subcommand(site):
    for arguments in (("status", "--profile", site), ("--profile", site, "status"),
                      ("--profile", "laptop", "status", "--profile", site)):
        told = run(*arguments, "--json")
        assert told.exit_code == 0
        row = json.loads(told.stdout)["one"][1]
        assert (row["step"], row["state"], row["seconds"], row["started"]) == (
            "build", "done", 2, "1970-01-01T00:00:01+00:00")
    shown = run("status", "--profile", site).output.splitlines()[2].split()
    assert (shown[:2], shown[-3:]) == (["build", "done"], ["2", "s", "2"])


def test_a_status_of_damaged_notes_shows_those_steps_as_waiting(site):
    steps = site.parent / "scratch/releases/one/steps"
    (steps / "build.json").write_text((steps / "build.json").read_text().replace("1.0", '"x"'))
    (steps / "push.begun").write_text("{}")
    (steps.parent / "jobs.json").write_text('{"a": 1}')
    told = run("status", "--profile", site)
    assert told.exit_code == 0
    assert [line.split()[1:] for line in told.output.splitlines()[1:]] == [["waiting"]] * 8


def test_an_image_of_no_such_name_is_refused_before_anything_is_made(site, monkeypatch):
    def reached(*_arguments, **_options):
        raise UserError("the gate was reached")

    monkeypatch.setattr("apertus_image.commands.release.gate", reached)
    profile = site.parent / "typo.yaml"
    profile.write_text(site.read_text().replace("smoke-image", "smoke-imag"))
    for arguments in (("--profile", profile), ("--profile", site, "--image", "smoke-imag")):
        told = run(*arguments)
        assert told.exit_code == 1 and "error: unknown image" in told.stderr
        assert "smoke-image-aarch64" in told.stderr and "smoke-imag\n" in told.stderr
    for name in ("smoke-image", "smoke-image-aarch64"):
        assert "the gate was reached" in run("--profile", profile, "--image", name).stderr
    assert [each.name for each in (site.parent / "scratch/releases").iterdir()] == ["one"]
