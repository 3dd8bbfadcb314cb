"""A release as jobs of Slurm, each after the one before it (sbatch(1)).

A group of steps gets several jobs in a row: the second runs only if the first did not end well,
as when its time limit ended it, and goes on where that was. The next group waits until one of
them has ended well. Nothing waits for ever: a job whose turn cannot come is cancelled by Slurm.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apertus_image.build.run import BOOTSTRAP
from apertus_image.errors import UserError
from apertus_image.place.whole import write_whole
from apertus_image.release.profile import Slurm
from apertus_image.release.state import Folder

__all__ = ["free", "jobs", "states", "submit"]

SCRIPT = """\
#!/bin/sh
# Written by tools/release; it can be submitted again by hand.
{setting}cd {folder} || exit
exec {command}
"""


def submit(slurm: Slurm, folder: Folder, command: Sequence[str], undone: Sequence[str]
           ) -> list[dict[str, Any]]:
    """Submit the steps that are not done; the jobs, in order, also noted in the folder.

    Args:
        command: what goes on with the release; `--only STEPS` is added.
        undone: names of steps.

    Raises:
        UserError: sbatch refuses, or is not here. Jobs that were submitted are cancelled.
    """
    submitted: list[dict[str, Any]] = []
    after: list[int] = []
    own = os.environ.get(BOOTSTRAP)
    try:
        for group in slurm.jobs:
            if not (names := [step for step in group if step in undone]):
                continue
            script = folder.path / "logs" / f"{names[0]}.sh"
            # Paths on the command line, in the profile and in variables are as they were here.
            # Without the self-contained folder that runs this, a site that passes no variables to
            # jobs, or a shell that has none, could not start the command.
            write_whole(script, SCRIPT.format(
                setting=f"export {BOOTSTRAP}={shlex.quote(own)}\n" if own else "",
                folder=shlex.quote(os.getcwd()),  # noqa: PTH109
                command=shlex.join([*command, "--only", ",".join(names)])).encode())
            attempts: list[int] = []
            for number in range(slurm.attempts):
                job = _sbatch(slurm, folder, script, names, after, attempts)
                attempts.append(job)
                submitted.append({"job": job, "steps": names, "attempt": number + 1})
            after = attempts
        write_whole(folder.path / "jobs.json", json.dumps(submitted, indent=1).encode())
    except BaseException as error:
        if submitted:
            subprocess.run(["scancel", *(str(each["job"]) for each in submitted)],
                           capture_output=True)
        if isinstance(error, OSError):
            raise UserError("the jobs cannot be noted", where=error.filename or folder.path,
                            got=error.strerror, next_step="make room, or name another scratch in "
                            "the profile") from error
        raise
    return submitted


def free(folder: Folder) -> None:
    """Insist that no job of the release is in the queue: two would work on one folder.

    Raises:
        UserError: there are some.
    """
    if queued := states(folder):
        raise UserError("this release has jobs in the queue already", where=folder.path,
                        got=", ".join(f"{job} {state}" for job, state in queued.items()),
                        next_step=f"wait for them, or: scancel {' '.join(map(str, queued))}")


def _sbatch(slurm: Slurm, folder: Folder, script: Path, names: list[str], after: list[int],
            before: list[int]) -> int:
    # `?`: one of them is enough. A further attempt only after the one before has failed.
    wanted = [f"afternotok:{before[-1]}"] if before else (
        ["?".join(f"afterok:{job}" for job in after)] if after else [])
    options = {"account": slurm.account, "partition": slurm.partition, "mem": slurm.memory,
               "time": slurm.time, "dependency": ",".join(wanted),
               "job-name": f"release-{names[0]}", "chdir": str(folder.path),
               "output": f"{_plain(folder.path / 'logs')}/{names[0]}-%j.log",
               "kill-on-invalid-dep": "yes"}
    command = ["sbatch", "--parsable", "--requeue", "--open-mode=append", "--nodes=1", "--ntasks=1",
               *(f"--{key}={value}" for key, value in options.items() if value), *slurm.options,
               str(script)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise UserError("sbatch is not here", next_step="run it on a login node, or without "
                        "--slurm") from error
    if done.returncode:
        raise UserError("sbatch refused a job", where=shlex.join(command),
                        got=done.stderr.strip()[-1000:],
                        next_step="mend the profile's slurm part; or, where Slurm itself does not "
                        "work, run it on a login node")
    return int(done.stdout.split(";")[0])


def _plain(path: Path) -> str:
    """A path in a pattern of sbatch's, there to be taken as it is (sbatch(1), FILENAME PATTERN).

    A relative pattern would not help: Slurm puts the job's folder in front and expands both.

    Raises:
        UserError: it has a backslash, which turns off the pattern's `%j` too.
    """
    if "\\" in str(path):
        raise UserError("Slurm writes no log below such a path", where=path,
                        expected="a path without a backslash",
                        next_step="name another scratch in the profile")
    return str(path).replace("%", "%%")


def jobs(folder: Folder) -> list[dict[str, Any]]:
    """The jobs that were submitted last; none if their file is not as it was written."""
    try:
        return [{"job": int(each["job"]), "steps": list(each["steps"]),
                 "attempt": int(each["attempt"])}
                for each in json.loads((folder.path / "jobs.json").read_bytes())]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def states(folder: Folder) -> dict[int, str]:
    """Job -> state, of those that Slurm has in its queue; empty where there is no Slurm."""
    numbers = ",".join(str(each["job"]) for each in jobs(folder))
    if not numbers:
        return {}
    try:
        said = subprocess.run(["squeue", "--noheader", "--format=%i %T %r", f"--jobs={numbers}"],
                              capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    except FileNotFoundError:
        return {}
    return {int(job): f"{state} ({why})" if why not in ("None", "") else state
            for job, state, why in (line.split(" ", 2) for line in said.stdout.splitlines())}
