"""A real Slurm of one node on loopback, for a test: started in its folder, stopped by pid.

Settings are those that work on a bare Debian machine as root: no cgroups, no systemd.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "munged")
PATIENCE = 60  # seconds, for a daemon to come up

SETTINGS = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmctldParameters=requeue_delay=1
KillWait=2
OverTimeLimit=0
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=normal Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster.

    Attributes:
        environment: variables for its commands.
    """

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        return subprocess.run(command, env=os.environ | self.environment, check=True,
                              capture_output=True, text=True).stdout

    def wait(self, seconds: float = 300) -> None:
        """Until no job is left in the queue."""
        end = time.monotonic() + seconds
        while self.run("squeue", "--noheader"):
            assert time.monotonic() < end, self.run("squeue")
            time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Slurm]:
    """Start munged, slurmctld and slurmd; skips where that cannot be."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(f"not run: {', '.join(missing)} missing (slurm-wlm, munge)")
    if " - cgroup" not in Path("/proc/self/mountinfo").read_text():
        pytest.skip("not run: slurmd wants a cgroup file system, and none is mounted")
    if os.geteuid() != 0:
        pytest.skip("not run: Slurm's daemons are started as root here")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    settings = folder / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    settings.write_text(SETTINGS.format(folder=folder, host=host, cpus=os.cpu_count(),
                                        ctld=_free_port(), slurmd=_free_port()))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    environment = {"SLURM_CONF": str(settings)}
    started = []
    try:
        started.append(subprocess.Popen(
            ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket",
             f"--key-file={key}", f"--log-file={folder}/munged.log",
             f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munged.seed"],
            stderr=subprocess.DEVNULL))
        _until(lambda: (folder / "munge.socket").exists(), "munged")
        for name in ("slurmctld", "slurmd"):
            started.append(subprocess.Popen([name, "-D", "-f", str(settings)],
                                            env=os.environ | environment,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        slurm = Slurm(folder, environment)
        _until(lambda: "idle" in slurm.run("sinfo", "--noheader", "--format=%t"), "slurmd")
        yield slurm
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()
                process.wait()


def _until(true, name: str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.CalledProcessError):
            if true():
                return
        time.sleep(0.2)
    pytest.fail(f"{name} did not start; its log is in the test's folder")
