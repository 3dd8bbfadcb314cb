"""Releases of the smoke image as Slurm's jobs: dependent, submitted once, gone on with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from apertus_image.release import slurm as jobs
from apertus_image.release.profile import STEPS, Slurm
from apertus_image.release.state import Folder as State
from support import slurm
from support.checkout import clean_clone, git
from support.releasing import command, needs_programs, profile, published, surroundings

pytestmark = [pytest.mark.nix, needs_programs]
BY_SLURM = """\
slurm: {{time: "1", attempts: 2, partition: normal, jobs: {jobs}}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm.cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def test_slurm_runs_it_as_dependent_jobs(reference, clone, tmp_path, cluster):
    at = tmp_path / "site"
    file = profile(at, BY_SLURM.format(jobs=json.dumps(
        [["prefetch", "build"], ["push"], ["export", "check"], ["record", "attach", "publish"]])))
    environment = surroundings(at) | cluster.environment
    submitted = subprocess.run(command(clone, file, "--slurm", "--json"), capture_output=True,
                               text=True, env=environment)
    assert submitted.returncode == 0, submitted.stderr
    assert [job["attempt"] for job in json.loads(submitted.stdout)] == [1, 2] * 4
    cluster.wait()
    logs = "\n".join(log.read_text() for log in (at / "scratch").rglob("*.log"))
    assert published(at) == published(reference), logs
    told = subprocess.run([*command(clone, file)[:1], "status", "--profile", file],
                          capture_output=True, text=True, env=environment).stdout
    rows = [line.split() for line in told.splitlines()[1:]]
    assert [(row[0], row[1]) for row in rows] == [(step, "done") for step in STEPS]
    assert all(row[-1].isdigit() for row in rows)  # each by a job


def test_a_jobs_log_lies_below_its_own_folder_whatever_the_path(tmp_path, cluster, monkeypatch):
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    folder = State(tmp_path / "at 100%j %%x % here")
    folder.make()
    jobs.submit(Slurm(time="1", attempts=1), folder, ["echo", "it", "ran"], ["push"])
    cluster.wait()
    (log,) = folder.path.glob("logs/*.log")
    assert log.read_text() == "it ran --only push\n"
    assert [path.name for path in tmp_path.iterdir()] == [folder.path.name]


def test_jobs_are_submitted_once_and_only_for_the_state_that_was(clone, tmp_path, cluster):
    at = tmp_path / "site"
    file = profile(at, "slurm: {time: '1', attempts: 1, options: [--begin=now+1hour]}\n")
    environment = surroundings(at) | cluster.environment

    def submit():
        return subprocess.run(command(clone, file, "--slurm"), capture_output=True, text=True,
                              env=environment)

    first = submit()
    assert first.returncode == 0, first.stderr
    queued = cluster.run("squeue", "--noheader", "--format=%i").split()
    assert len(queued) == 4
    again = submit()
    assert again.returncode == 1 and "jobs in the queue" in again.stderr
    assert cluster.run("squeue", "--noheader", "--format=%i").split() == queued
    cluster.run("scancel", *queued)
    cluster.wait()
    # What a job would run, after the clone has gone on to another commit.
    script = next(Path(first.stdout.strip()).glob("logs/prefetch.sh"))
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "later")
    try:
        job = subprocess.run(["sh", script], capture_output=True, text=True, env=environment)
    finally:
        git(clone, "reset", "--quiet", "--hard", "HEAD~1")
    assert job.returncode == 1 and "another state of the clone" in job.stderr
    assert [path.name for path in (at / "scratch/releases").iterdir()] == [
        Path(first.stdout.strip()).name]
    assert submit().returncode == 0  # jobs that have ended are no hindrance
    cluster.run("scancel", *cluster.run("squeue", "--noheader", "--format=%i").split())
    cluster.wait()


# In the clone of the test below: a first attempt that is stuck in the export.
STUCK = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
case "$*" in *--only*) ;; *) exec "$here/run" release "$@" ;; esac
[ -e "{flag}" ] && exec "$here/run" release "$@"
touch "{flag}"
"$here/run" release "$@" &
until ls "{scratch}"/releases/*/steps/export.begun >/dev/null 2>&1; do sleep 0.02; done
kill -STOP $!
wait
"""


def test_a_job_ended_by_its_time_limit_is_gone_on_with_by_the_next(reference, tmp_path, cluster):
    at = tmp_path / "site"
    file = profile(at, BY_SLURM.format(jobs=json.dumps([list(STEPS)])))
    stuck = clean_clone(tmp_path / "clone")
    (stuck / "tools/release").write_text(STUCK.format(flag=at / "flag", scratch=at / "scratch"))
    git(stuck, "commit", "--quiet", "--all", "--message", "stuck")
    submitted = subprocess.run(command(stuck, file, "--slurm"), capture_output=True, text=True,
                               env=surroundings(at) | cluster.environment)
    assert submitted.returncode == 0, submitted.stderr
    cluster.wait()
    folder = Path(submitted.stdout.strip())
    said = "\n".join(log.read_text() for log in sorted(folder.rglob("*.log")))
    assert "DUE TO TIME LIMIT" in said
    assert json.loads((folder / "steps/export.json").read_text())["times"]["attempts"] == 2, said
    exports = [set((place / "published").glob("*.sqsh")) for place in (at, reference)]
    assert [one.read_bytes() for one in exports[0]] == [one.read_bytes() for one in exports[1]]
