"""Running a program that ends when this process does, however that ends.

Nix ends what it builds when it is told to stop. Where it is killed, its builders go on, each in a
session and name spaces of its own, and the next build of the same derivation fails when it would
remove the folder that one still writes to.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

__all__ = ["run"]

PR_SET_PDEATHSIG = 1  # prctl(2)


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command, its stdout captured as text, to its end or to this process's.

    It has a session of its own, so that what kills this process group spares it. It is told to
    stop (SIGTERM) when this process ends, or is told to (Ctrl-C).
    """
    libc, parent = ctypes.CDLL(None), os.getpid()

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment,
                          start_new_session=True, preexec_fn=tie) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)
