"""Surroundings of a second build that differ from the first's in all that may not matter.

What reproducible-builds.org varies: user, umask, locale, time zone, processors, hash seed; the
clone's path and its files' order are audit/checkout.py's, the store audit/again.py's.
"""

from __future__ import annotations

import multiprocessing
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from apertus_image.errors import UserError

__all__ = ["Surroundings", "Varied", "vary", "within"]

T = TypeVar("T")
USER, UMASK, SEED, ZONE = 4242, 0o077, "4711", "XXX-14"
C_LOCALES = ("C", "POSIX")


@dataclass(frozen=True)
class Varied:
    """One thing that was varied, or was not.

    Attributes:
        what: its name.
        first, second: what it was in either build.
        why: why it was not varied; empty where it was.
    """

    what: str
    first: str
    second: str = ""
    why: str = ""


@dataclass(frozen=True)
class Surroundings:
    """What is around a build.

    Attributes:
        variables: the whole environment.
        settings: Nix settings beside the usual ones.
        uid: of another user, None for this one.
        umask: octal number.
        cpus: processors to stay on, None for all.
    """

    variables: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    uid: int | None = None
    umask: int = 0o022
    cpus: frozenset[int] | None = None

    def enter(self) -> None:
        """Bring this process, a forked one, there."""
        os.umask(self.umask)
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)
        if self.uid is not None:
            os.setgroups([])
            os.setgid(self.uid)
            os.setuid(self.uid)


def within(around: Surroundings, work: Callable[[], T]) -> T:
    """Do some work in a fork of this process that is in other surroundings; give its result.

    Raises:
        UserError: the work's own, or the process died.
    """
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def run() -> None:
        receive.close()
        os.environ.clear()
        os.environ.update(around.variables)
        around.enter()
        try:
            send.send((True, work()))
        except UserError as error:
            send.send((False, vars(error)))

    process = context.Process(target=run)
    process.start()
    send.close()
    try:
        well, result = receive.recv()
    except EOFError:
        process.join()
        raise UserError("a step in other surroundings ended without a result",
                        got=f"exit code {process.exitcode}", next_step="see the words above",
                        ) from None
    process.join()
    if not well:
        raise UserError(result.pop("what"), **result)
    return result


def vary(scratch: Path, home: Path, nix: Path | None = None) -> tuple[Surroundings, list[Varied]]:
    """Other surroundings than this process's, and the table of what they differ in.

    Args:
        scratch: folder that all of both builds lies in.
        home: the second build's own folder in it, for HOME, caches and temporary files.
        nix: program of another Nix; one that PATH has if None.

    Raises:
        UserError: the program that was named is no Nix.
    """
    uid, user = _user(scratch)
    mask = _umask()
    cpus = sorted(os.sched_getaffinity(0))
    cores = "1" if len(cpus) > 1 else "2"
    locale, locales = _locale()
    second, nixes = _nix(nix)
    path = os.environ.get("PATH", os.defpath)
    variables = {
        "HOME": str(home), "USER": "other", "LOGNAME": "other", "TMPDIR": str(home / "tmp"),
        "TZ": ZONE if os.environ.get("TZ") != ZONE else "UTC",
        "PYTHONHASHSEED": SEED if os.environ.get("PYTHONHASHSEED") != SEED else "1",
        "PATH": f"{second.parent}:{path}" if second else path,
        **({"LC_ALL": locale} if locale else {}),
    }
    around = Surroundings(
        variables, {"cores": cores, "max-jobs": cores}, uid,
        UMASK if mask != UMASK else 0o022, frozenset(cpus[:1]))

    def told(name: str) -> str:
        return os.environ.get(name, "not set")

    return around, [
        user,
        Varied("umask", f"{mask:04o}", f"{around.umask:04o}"),
        locales,
        Varied("time zone", told("TZ"), variables["TZ"]),
        Varied("CPUs", f"{len(cpus)}; as many jobs, each with all cores",
               f"1; {cores} job{'s' * (cores != '1')} with {cores} core{'s' * (cores != '1')}"),
        Varied("hash seed", told("PYTHONHASHSEED"), f"{variables['PYTHONHASHSEED']}, around Nix; "
               "builders get their own from their derivation"),
        Varied("other variables", f"{len(os.environ)}, this shell's",
               f"{len(variables)}, all named by this command"),
        nixes,
        Varied("machine", "this one", why="one machine can't be two: run this elsewhere with the "
               "record of a release (--record)"),
    ]


def _umask() -> int:
    """This process's umask; there is no way to ask but to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _user(scratch: Path) -> tuple[int | None, Varied]:
    own = os.geteuid()
    if own != 0:
        return None, Varied("user", f"uid {own}", why="only root can become another user")
    taken = {each.pw_uid for each in pwd.getpwall()}
    uid = next(number for number in range(USER, USER + 1000) if number not in taken)
    # The sandbox of a user without rights is made of user namespaces.
    other = {"user": uid, "group": uid, "extra_groups": [], "cwd": "/", "capture_output": True}
    if subprocess.run(["unshare", "--user", "--map-root-user", "true"], **other).returncode:
        return None, Varied("user", "uid 0", why="the kernel gives no user namespaces to others")
    if subprocess.run(["test", "-x", str(scratch)], **other).returncode:
        return None, Varied("user", "uid 0", why="another user cannot reach the scratch folder")
    return uid, Varied("user", "uid 0", f"uid {uid}, without groups or rights")


def _locale() -> tuple[str, Varied]:
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    now = next((os.environ[name] for name in names if os.environ.get(name)), "C")
    listed = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split() \
        if shutil.which("locale") else ["C", "C.utf8"]

    def plain(name: str) -> str:
        name = "C" if name in C_LOCALES else name
        return re.sub(r"[.]utf-?8$", ".utf8", name, flags=re.IGNORECASE)

    # One with rules of its own (tr_TR, say) shows more than C's with or without UTF-8.
    others = sorted((name for name in listed if plain(name) != plain(now)),
                    key=lambda name: (plain(name) in ("C", "C.utf8"), "tr_" not in name, name))
    if not others:
        return "", Varied("locale", now, why="the machine has no other (locale -a)")
    return others[0], Varied("locale", now, others[0])


def _nix(wanted: Path | None) -> tuple[Path | None, Varied]:
    """The program of a second Nix, and its row."""
    usual_one = shutil.which("nix")
    first = _version(usual_one)
    if wanted:
        program = wanted / "nix" if wanted.is_dir() else wanted
        if not (version := _version(program)):
            raise UserError("this is no Nix", where=program, expected="the program nix, or the "
                            "folder that it is in", next_step="leave --nix out")
        return program.absolute(), Varied("Nix", first, version, "" if version != first else
                                          f"the one that was named is version {version} too")
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = shutil.which("nix", path=folder or ".")
        if program and (version := _version(program)) and version != first:
            return Path(program).absolute(), Varied("Nix", first, version)
    return None, Varied("Nix", first, why="PATH has no second one; name its folder with --nix")


def _version(program: str | Path | None) -> str:
    """A Nix's version; empty if it is none."""
    try:
        said = subprocess.run([str(program or "nix"), "--version"], capture_output=True, text=True)
    except OSError as error:
        if program is None:
            raise UserError("Nix is not installed", next_step="tools/build --setup") from error
        return ""
    found = re.fullmatch(r"nix \(.*Nix.*\) (\S+)\s*", said.stdout)
    return found[1] if found and not said.returncode else ""
