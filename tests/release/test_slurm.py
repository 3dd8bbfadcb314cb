"""Submission, where Slurm refuses midway: fakes of its programs, which only note and refuse."""

from __future__ import annotations

import subprocess

import pytest
from apertus_image.errors import UserError
from apertus_image.release import slurm
from apertus_image.release.profile import STEPS, Slurm
from apertus_image.release.state import Folder

SBATCH = """\
#!/bin/sh
echo >>"{at}/submitted"
[ $(wc -l <"{at}/submitted") -lt 3 ] || {{ {then}; }}
wc -l <"{at}/submitted"
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Makes sbatch, which does something at its third job, and scancel, which notes its jobs."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(then):
        for name, text in (("sbatch", SBATCH.format(at=tmp_path, then=then)),
                           ("scancel", f'#!/bin/sh\necho "$@" >"{tmp_path}/cancelled"\n')):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)

    return make


@pytest.mark.parametrize(("then", "said"), [
    ("echo no such account >&2; exit 1", "no such account"),
    ('rm -r "{at}/release/logs"', "cannot be noted"),
])
def test_a_submission_that_fails_midway_leaves_no_job(programs, tmp_path, then, said):
    programs(then.format(at=tmp_path))
    folder = Folder(tmp_path / "release")
    folder.make()
    with pytest.raises(UserError, match=said):
        slurm.submit(Slurm(time="1", attempts=2), folder, ["release"], STEPS)
    submitted = len((tmp_path / "submitted").read_text().splitlines())
    cancelled = (tmp_path / "cancelled").read_text().split()
    assert cancelled == [str(n + 1) for n in range(submitted - ("account" in said))]
    assert slurm.jobs(folder) == []


def test_a_job_runs_where_it_was_submitted_from(programs, tmp_path, monkeypatch):
    programs("true")
    folder = Folder(tmp_path / "release")
    folder.make()
    (tmp_path / "my place").mkdir()
    monkeypatch.chdir(tmp_path / "my place")
    slurm.submit(Slurm(time="1"), folder, ["my release"], STEPS)
    script = (folder.path / "logs/push.sh").read_text()
    assert f"\ncd '{tmp_path}/my place' || exit\nexec 'my release' --only push\n" in script


def test_a_folder_that_slurm_could_not_log_to_is_refused(programs, tmp_path):
    programs("true")

    def submit(name):
        folder = Folder(tmp_path / name)
        folder.make()
        return slurm.submit(Slurm(time="1"), folder, ["release"], STEPS)

    with pytest.raises(UserError, match="backslash"):
        submit("a\\b")
    assert not (tmp_path / "submitted").exists()
    assert submit("a%b")


@pytest.mark.parametrize("own", [None, "/scratch/my folder/0123456789ab"])
def test_a_job_runs_on_the_folder_that_it_was_submitted_from(programs, tmp_path, monkeypatch, own):
    """Also where Slurm passes no variables on, or somebody submits it again by hand."""
    if own:
        monkeypatch.setenv("APERTUS_BOOTSTRAP", own)
    else:
        monkeypatch.delenv("APERTUS_BOOTSTRAP", raising=False)
    programs("true")
    folder = Folder(tmp_path / "release")
    folder.make()
    slurm.submit(Slurm(time="1"), folder, ["sh", "-c", 'echo "on ${APERTUS_BOOTSTRAP-nothing}"'],
                 STEPS)
    said = subprocess.run(["sh", folder.path / "logs/push.sh"], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin"})
    assert said.stdout == f"on {own or 'nothing'}\n"
