"""Making a self-contained folder: a version beside the others, whole, then the current one.

    DIR/IDENTITY/   the content, never changed; jobs that run keep theirs
    DIR/current     a link to the version in use, exchanged in one step
    DIR/bin         current/bin
    DIR/store, DIR/var   what its user writes; no version is in there
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.bundle import commands, packages, programs
from apertus_image.bundle.libraries import settle
from apertus_image.errors import UserError
from apertus_image.fetch.bootstrap import nar_sha256
from apertus_image.fetch.plan import Input
from apertus_image.squashfs.final import remove_left, workplace
from apertus_image.tree.machine import Machine

__all__ = ["RECORD", "SCHEMA", "Made", "link", "make", "prepare", "starts"]

SCHEMA = "apertus-image/bundle/1"
RECORD = "bundle.json"
OWN = re.compile(r"[0-9a-f]{12}|current|bin|store|var|\..*")
"""Names that a self-contained folder holds."""
TIME = 1
SKIPPED = {".git", ".venv", ".bootstrap", ".roots", "result", "__pycache__", ".pytest_cache",
           ".ruff_cache"}


@dataclass(frozen=True)
class Made:
    """What `make` gave.

    Attributes:
        path: the folder.
        record: what RECORD says.
        written: False where this very folder was there already.
    """

    path: Path
    record: dict[str, Any]
    written: bool


def prepare(target: Path) -> None:
    """Make the folder that `make` fills; to be asked before anything is brought for it.

    Raises:
        UserError: something else has the name, its path cannot be used, or it cannot be written
            to.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        ours = all(OWN.fullmatch(each.name) for each in target.iterdir())
        if not os.access(target, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    except FileExistsError:
        ours = False
    except OSError as error:
        raise UserError("the folder cannot be written", where=error.filename or target,
                        got=error.strerror, next_step="choose another") from error
    if not ours:
        raise UserError("something else has the name", where=target,
                        expected="no folder, an empty one, or one that tools/bootstrap made",
                        next_step="give another name")
    # Lists of folders have these, PATH and the loader's, and Nix's name of a store.
    if set(":;?").intersection(os.path.realpath(target)):
        raise UserError("a folder with : ; or ? in its path cannot be used", where=target,
                        next_step="give another name")


def make(target: Path, project: Path, machine: Machine, files: Iterable[tuple[Input, Path]],
         *, step: Callable[[str], None] = lambda _label: None) -> Made:
    """Make the version of these pins and tools, and the one in use.

    Args:
        target: the folder; other versions in it stay.
        project: the clone whose tools go in, its tracked files alone.
        files: (pin, file) of `plan.inputs`.
        step: told what is being done.

    Raises:
        UserError: what `prepare` raises, or a pinned file is damaged.
    """
    target = target.absolute()
    prepare(target)
    content = target / "content"  # never there: the names of work in progress are made of it
    try:
        remove_left(content)
        with workplace(content) as work:
            folder = work / "new"
            folder.mkdir()
            record = _fill(folder, project, machine, list(files), step)
            final = target / record["identity"][:12]
            written = not _same(folder, final)
            if written:
                if final.exists():  # damaged, by a purge say
                    final.rename(work / "old")
                folder.rename(final)
            for name, to in {"current": final.name, "bin": "current/bin"}.items():
                _link(work / "link", target / name, to)
    except OSError as error:
        raise UserError("the folder cannot be written", where=error.filename or target,
                        got=error.strerror, next_step="make room, or choose another") from error
    return Made(target, record, written)


def starts(folder: Path) -> bool:
    """Whether a folder of this machine's can be used where it lies; not on a noexec file system."""
    try:
        return subprocess.run([folder / "current/programs/python3", "-c", ""],
                              capture_output=True).returncode == 0
    except OSError:
        return False


def link(project: Path, folder: Path) -> bool:
    """Let the commands of a clone run on a folder, where nothing else is installed (tools/run).

    Returns:
        False where the clone cannot be written to, as another user's.
    """
    place = project / ".bootstrap"
    if place.is_dir() and not place.is_symlink():
        return place.samefile(folder)
    try:
        with workplace(place) as work:
            _link(work / "link", place, str(folder.absolute()))
    except (OSError, UserError):
        return False
    return True


def _fill(folder: Path, project: Path, machine: Machine, pinned: list[tuple[Input, Path]],
          step: Callable[[str], None]) -> dict[str, Any]:
    step("unpacking programs")
    programs.install([(each.name, file) for each, file in pinned if each.kind == "deb"],
                     machine, folder)
    step("installing packages")
    packages.install([(each, file) for each, file in pinned if each.kind == "wheel"], folder)
    settle(folder / "lib" / machine.triplet,
           [*(folder / "libexec").iterdir(), *folder.glob("lib/python3*/**/*.so")],
           Path(machine.loader).name)
    names = _project(project, folder / "project", without=folder.parents[1])
    commands.install(names, folder)
    _settle(folder)
    step("hashing")
    identity = nar_sha256(folder)
    commands.environment(folder, identity, machine)
    record = {"schema": SCHEMA, "machine": machine.name, "identity": identity,
              "files": [{"file": each.pin.file, "sha256": each.pin.sha256} for each, _ in pinned]}
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n")
    _settle(folder)
    return record


def _project(project: Path, target: Path, without: Path) -> list[str]:
    """Copy the tracked files as they are; the names of the commands among them."""
    for name in _tracked(project, without):
        source, copy = project / name, target / name
        if source.is_symlink() or source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
    return sorted(file.name for file in (target / "tools").iterdir()
                  if file.is_file() and (target / "tools/apertus_image/commands"
                                         / f"{file.name.replace('-', '_')}.py").is_file())


def _tracked(project: Path, without: Path) -> list[str]:
    if (project / ".git").exists():
        result = subprocess.run(
            ["git", "-c", f"safe.directory={project}", "-C", str(project), "ls-files", "-z"],
            capture_output=True)
        if result.returncode:
            raise UserError("git cannot tell the project's files", where=project,
                            got=os.fsdecode(result.stderr).strip())
        return sorted(filter(None, os.fsdecode(result.stdout).split("\0")))
    return sorted(str(file.relative_to(project)) for file in project.rglob("*")
                  if not SKIPPED.intersection(file.relative_to(project).parts)
                  and not file.is_dir() and without.resolve() not in file.parents)


def _settle(folder: Path) -> None:
    """Modes and times that do not depend on who made it, nor when, nor with which umask."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            run = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if run else 0o644)
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (TIME, TIME), follow_symlinks=False)


def _same(folder: Path, final: Path) -> bool:
    """Whether a version is there, and every byte of it is right."""
    return final.is_dir() and nar_sha256(folder) == nar_sha256(final)


def _link(part: Path, link: Path, to: str) -> None:
    """Make a link lead elsewhere, in one step."""
    if not link.is_symlink() or os.readlink(link) != to:
        part.symlink_to(to)
        part.replace(link)
