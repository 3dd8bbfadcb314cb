"""Running docker-registry over a folder: start, health, stop, and never an orphan."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import requests
import yaml

from apertus_image.errors import UserError
from apertus_image.registry.server.folder import Folder, Holder, Lock
from apertus_image.registry.server.layout import Layout
from apertus_image.registry.state import State, default_folder

__all__ = ["answers", "program", "serve", "stop"]

PROGRAM = "docker-registry"
LOOPBACK = "127.0.0.1"
MARK = "X-Apertus-Registry"  # tells our server from another's that took the port

STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
HEALTH = 60.0  # seconds a start may take; a parallel file system may be slow
DRAIN = 10  # seconds that requests get to end in when it stops
PR_SET_PDEATHSIG = 1  # prctl(2)


def program() -> Path:
    """The registry's program.

    Raises:
        UserError: it is not installed.
    """
    found = shutil.which(PROGRAM)
    if found is None:
        raise UserError(f"{PROGRAM} is not installed", expected="the program of Debian's package "
                        "docker-registry, distribution 2.8 or newer",
                        next_step="apt-get install docker-registry")
    return Path(found)


def serve(folder: Folder, lock: Lock, port: int | None, ready: Callable[[str], None]) -> None:
    """Run the registry until a signal asks to stop; the calling process waits and watches.

    If the caller is killed, the kernel kills the registry, which has the folder's lock too: the
    lock is free only when neither writes there any more. Uploads of this user's whose sender was
    killed are made good to go on with before it starts.

    Args:
        lock: of `folder.hold`.
        port: None takes the last one again, so that interrupted uploads find it, or a free one.
        ready: called with HOST:PORT once the registry answers.

    Raises:
        UserError: it does not start, or ends by itself.
    """
    path = program()
    Layout(folder.data).cut_uploads(State(default_folder()).acknowledged())
    # Blocked, they wait for sigtimedwait: no handler, and none comes between two steps.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS | {signal.SIGCHLD})
    try:
        server = _Server(path, folder, lock, before)
        try:
            if address := server.start(_ports(lock, port), fixed=port is not None):
                lock.answers(address)
                ready(address)
                server.watch()
        finally:
            server.end()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop(folder: Folder) -> Holder | None:
    """Stop the server of a folder and wait until it has ended; its last holder, None if none.

    Raises:
        UserError: it is on another machine, another user's, or does not end.
    """
    holder = folder.holder()
    if holder is None:
        return None
    try:
        if not holder.here:
            raise UserError("the server is on another machine", where=folder.path, got=holder,
                            next_step=f"run this on {holder.host}")
        if holder.doing != "serve" or not folder.has_open(holder.pid):
            raise UserError("no server has the folder", where=folder.path, got=holder,
                            next_step="wait for it to end, or ask again")
        os.kill(holder.pid, signal.SIGTERM)
    except PermissionError as error:
        raise UserError("the server is another user's", where=folder.path, got=holder,
                        next_step="ask its owner to stop it") from error
    end = time.monotonic() + 3 * DRAIN
    while (now := folder.holder()) and now.pid == holder.pid:
        if time.monotonic() > end:
            raise UserError("the server does not end", where=folder.path, got=holder,
                            next_step=f"kill -9 {holder.pid}: nothing of it is left then")
        time.sleep(0.1)
    return holder


def answers(address: str, mark: str | None = None) -> bool:
    """Whether a registry answers at HOST:PORT, the one with this mark if one is given."""
    with requests.Session() as session:
        session.trust_env = False  # no proxy for loopback
        try:
            reply = session.get(f"http://{address}/v2/", timeout=5, allow_redirects=False)
        except requests.RequestException:
            return False
    return reply.status_code == 200 and mark in (None, reply.headers.get(MARK))


class _Server:
    """One docker-registry, as this process's child."""

    def __init__(self, path: Path, folder: Folder, lock: Lock, mask: set[signal.Signals]) -> None:
        self.path, self.folder, self.lock, self.mask = path, folder, lock, mask
        self.child: subprocess.Popen | None = None
        self.since = 0  # where in the log this start begins

    def start(self, ports: list[int], *, fixed: bool) -> str | None:
        """Start on the first port that is free; HOST:PORT, or None if told to stop meanwhile.

        Raises:
            UserError: it does not start.
        """
        for port in ports:
            address, mark = f"{LOOPBACK}:{port}", secrets.token_hex(8)
            self._spawn(address, mark)
            end = time.monotonic() + HEALTH
            while self.child.poll() is None:
                if answers(address, mark):
                    return address
                if time.monotonic() > end:
                    raise self._failed("the registry does not answer")
                if _signal(0.05) in STOPS:
                    return None
            if "address already in use" not in self._said():
                raise self._failed("the registry did not start")
        if fixed:
            raise UserError("the port is taken", where=f"{LOOPBACK}:{ports[0]}",
                            next_step="name another with --port, or none for a free one")
        raise self._failed("no free port was found")

    def watch(self) -> None:
        """Wait for a signal to stop.

        Raises:
            UserError: the registry ended first.
        """
        while _signal(None) not in STOPS:
            if self.child.poll() is not None:
                raise self._failed("the registry has ended")

    def end(self) -> None:
        """Let requests end, then the registry."""
        if self.child is None or self.child.poll() is not None:
            return
        self.child.terminate()
        try:
            self.child.wait(DRAIN + 5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def _spawn(self, address: str, mark: str) -> None:
        try:
            self.folder.turn_log()
            secret = self.folder.secret()
            self.folder.config.write_text(
                yaml.safe_dump(_configuration(self.folder, address, mark)), encoding="utf-8")
        except OSError as error:
            raise self.folder.unusable(error) from error
        libc, parent, mask = ctypes.CDLL(None, use_errno=True), os.getpid(), self.mask

        def tie() -> None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before the call
                os._exit(1)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        with self.folder.log.open("ab") as log:
            self.since = log.tell()
            # A session of its own: a terminal's Ctrl-C is for this process to act on. No
            # environment: REGISTRY_* variables of the user's would override the configuration.
            self.child = subprocess.Popen(
                [self.path, "serve", self.folder.config], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, pass_fds=[self.lock.fd], preexec_fn=tie,
                cwd=self.folder.path, env={"REGISTRY_HTTP_SECRET": secret})

    def _said(self) -> str:
        with self.folder.log.open("rb") as log:
            log.seek(self.since)
            return log.read().decode(errors="replace")

    def _failed(self, what: str) -> UserError:
        lines = self._said().strip().splitlines()
        return UserError(what, where=self.folder.log, got=lines[-1][:500] if lines else "no word",
                         next_step="read the log, mend what it says, serve again")


def _configuration(folder: Folder, address: str, mark: str) -> dict:
    """distribution 2.8, docs/configuration.md.

    No cache of blob descriptors: fsck may remove a blob, and purging does, behind its back.
    """
    return {
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(folder.data)},
            "delete": {"enabled": True},
        },
        "http": {"addr": address, "draintimeout": f"{DRAIN}s", "headers": {MARK: [mark]}},
        "health": {"storagedriver": {"enabled": True, "interval": "10s", "threshold": 3}},
    }


def _ports(lock: Lock, port: int | None) -> list[int]:
    """What to try in turn: the port asked for, or the last one and then free ones."""
    if port is not None:
        return [port]
    return [*([lock.port] if lock.port else []), *(_free() for _ in range(3))]


def _free() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def _signal(seconds: float | None) -> int | None:
    """The next signal that is waited for, or None after some seconds without one."""
    wanted = STOPS | {signal.SIGCHLD}
    if seconds is None:
        return signal.sigwait(wanted)
    got = signal.sigtimedwait(wanted, seconds)
    return got.si_signo if got else None
