"""Clones of this project with nothing uncommitted, as the release gate wants them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from support import images

IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "gc.auto=0")


def git(folder: Path, *arguments: str | Path) -> str:
    """Run git in a folder, as a test's own user."""
    return subprocess.run(["git", "-C", folder, *IDENTITY, *arguments], check=True,
                          capture_output=True, text=True).stdout


def clean_clone(folder: Path, date: str = "2026-01-01T00:00:00Z") -> Path:
    """A clone of this tree as it is now, what is not committed here committed there.

    Where all is committed, the clone's commit is this tree's own. Two clones of one state have
    one commit, whatever their folders.
    """
    git(images.PROJECT, "clone", "--quiet", "--no-hardlinks", images.PROJECT, folder)
    changed = [name for listing in (("diff", "-z", "--name-only", "HEAD"),
                                    ("ls-files", "-z", "--others", "--exclude-standard"))
               for name in git(images.PROJECT, *listing).split("\0")]
    for name in filter(None, changed):
        source = images.PROJECT / name
        (folder / name).unlink(missing_ok=True)
        if source.exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    git(folder, "add", "--all")
    if git(folder, "status", "--porcelain"):
        subprocess.run(["git", "-C", folder, *IDENTITY, "commit", "--quiet",
                        "--message", "the state under test"], check=True,
                       env={"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date,
                            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)})
    (folder / ".venv").symlink_to(images.PROJECT / ".venv")
    return folder
