"""Checkouts of one commit: one as git makes it, one that differs in all that git does not keep."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.release.git import Git

__all__ = ["clone", "commit_of", "rewritten"]

LONG_AGO = 1_000_000_000  # 2001-09-09, in seconds since 1970


def commit_of(project: Path, revision: str) -> str:
    """The commit that a revision means, hex.

    Raises:
        UserError: it means none.
    """
    well, output, words = Git(project).tried(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if not well:
        raise UserError("no such revision", where=project, got=words or revision,
                        expected="a commit, branch or tag of this clone",
                        next_step="git fetch, or name another: git log --oneline")
    return output.decode().strip()


def clone(project: Path, commit: str, to: Path) -> Path:
    """Check a commit out into a repository of its own.

    The objects are copied as files: git refuses to fetch from a clone that another user owns,
    would not give a commit that is on no branch, and links files where it can, so that the
    project's own would change hands with the copy.

    Raises:
        UserError: git refused, or there is no room.
    """
    git = Git(project)
    common = project / os.fsdecode(git.run("rev-parse", "--git-common-dir")).strip()
    made = Git(to)
    try:
        to.mkdir(parents=True)
        made.run("init", "--quiet")
        shutil.copytree(common / "objects", to / ".git/objects", dirs_exist_ok=True)
        if (common / "shallow").is_file():
            shutil.copyfile(common / "shallow", to / ".git/shallow")
    except OSError as error:
        raise UserError("the project cannot be copied", where=to, got=error.strerror or error,
                        next_step="make room, or choose another place with --scratch") from error
    made.run("checkout", "--quiet", "--detach", commit)
    return to


def rewritten(checkout: Path, to: Path) -> Path:
    """Move a checkout, writing its files anew: last name first, times long past, the umask's modes.
    """
    files = [path for path in sorted(checkout.rglob("*"), reverse=True)
             if path.relative_to(checkout).parts[0] != ".git"
             and (path.is_symlink() or path.is_file())]
    for file in files:
        target = to / file.relative_to(checkout)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.is_symlink():
            target.symlink_to(os.readlink(file))
        else:
            shutil.copyfile(file, target)
            if os.access(file, os.X_OK):
                target.chmod(0o777 & ~_umask())
        os.utime(target, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    (checkout / ".git").rename(to / ".git")
    shutil.rmtree(checkout)
    return to


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
