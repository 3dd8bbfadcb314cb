"""A folder's server for the length of a task: the one that runs, or one that ends with the task.

    python3 -m apertus_image.registry.server.borrowed DIR PARENT-PID

serves DIR, prints HOST:PORT, and ends when its parent does, however that ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.registry.server import process
from apertus_image.registry.server.folder import Folder
from apertus_image.registry.server.fsck import check

__all__ = ["borrowed"]

# Seconds: a server whose task was killed a moment ago lets go of the folder by itself.
LETTING_GO = 15.0


@contextlib.contextmanager
def borrowed(path: Path, *, cache: bool = False) -> Iterator[str]:
    """HOST:PORT of a server of the folder, until the block ends.

    Args:
        cache: losing parts of it is acceptable.

    Raises:
        UserError: the folder cannot be one's; another machine's server has it; it does not start.
    """
    process.program()
    folder = Folder(path)
    folder.prepare(cache=cache)
    end = time.monotonic() + LETTING_GO
    while holder := folder.holder():
        # Another task's ends with that task, so it is no help.
        if holder.doing == "serve" and holder.here and holder.address and process.answers(
                holder.address):
            yield holder.address
            return
        if time.monotonic() > end:
            raise UserError("the registry's folder is in use", where=path, got=str(holder),
                            next_step=f"wait for it, or there: tools/registry stop {path}")
        time.sleep(0.2)
    command = [sys.executable, "-m", __name__, str(path), str(os.getpid())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # A session of its own: a terminal's Ctrl-C is for the task, which still needs it to end well.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment,
                          start_new_session=True) as server:
        try:
            address = server.stdout.readline().strip()
            if not address:
                raise UserError("the registry did not start; its message is above", where=path,
                                next_step=f"tools/registry serve {path}")
            yield address
        finally:
            server.terminate()


def _main(path: Path, parent: int) -> None:
    ctypes.CDLL(None).prctl(process.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the call
        return
    folder = Folder(path)
    try:
        with folder.hold("task") as lock:
            report = check(folder.data, full=False, repair=True)
            for line in report.lines() if not report.clean else ():
                print(line, file=sys.stderr)
            process.serve(folder, lock, None, lambda address: print(address, flush=True))
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
