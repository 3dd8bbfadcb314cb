"""A checkout's objects: the commit, its tree, and what its submodules are checked out from."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from apertus_image.errors import UserError
from apertus_image.record.source import environment

__all__ = ["SUBMODULE", "Entry", "Git", "opened"]

SUBMODULE = "160000"


@dataclass(frozen=True)
class Entry:
    """One entry of a commit's tree.

    Attributes:
        mode: git's, six octal digits: 100644, 100755, 120000 a link, 160000 a submodule.
        id: the object's, hex; a commit's for a submodule.
        path: from the repository's root.
    """

    mode: str
    id: str
    path: str


class Git:
    """One repository that is checked out.

    Args:
        folder: the root of its working tree.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *arguments: str, stdin: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        """A git process with its output as a pipe."""
        try:
            return subprocess.Popen(
                ["git", "-C", str(self.folder), *arguments], stdout=subprocess.PIPE,
                stdin=stdin or subprocess.DEVNULL, stderr=subprocess.PIPE,
                env=environment(self.folder))
        except FileNotFoundError as error:
            raise UserError("git is not installed", next_step="tools/build --setup") from error

    def tried(self, *arguments: str) -> tuple[bool, bytes, str]:
        """Run git: whether it went well, its output and its words."""
        process = self.start(*arguments)
        output, words = process.communicate()
        return process.returncode == 0, output, words.decode(errors="replace").strip()

    def run(self, *arguments: str) -> bytes:
        """The output of a git command.

        Raises:
            UserError: git refused.
        """
        well, output, words = self.tried(*arguments)
        if not well:
            raise UserError("git refused", where=f"{self.folder}: git {' '.join(arguments[:2])}",
                            got=words[-2000:] or "no word",
                            next_step=f"see: git -C {self.folder} fsck")
        return output

    def head(self) -> str:
        """The commit that is checked out, hex.

        Raises:
            UserError: there is none yet.
        """
        well, output, _ = self.tried("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if not well:
            raise UserError("a checkout has no commit", where=self.folder,
                            next_step=f"git -C {self.folder} commit")
        return output.decode().strip()

    def has_commit(self, commit: str) -> bool:
        """Whether the object store has this commit."""
        return self.tried("cat-file", "-e", f"{commit}^{{commit}}")[0]

    def tree(self, commit: str) -> list[Entry]:
        """Files, links and submodules of a commit, folders left out, in git's order."""
        found = []
        for record in self.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
            if record:
                fields, _, path = record.partition(b"\t")
                mode, _, oid = fields.decode().split()
                found.append(Entry(mode, oid, os.fsdecode(path)))
        return found

    def submodule(self, path: str) -> Git | None:
        """A submodule where it is checked out; None where it is not."""
        folder = self.folder / path
        # Without a .git of its own, git would answer for the repository around it.
        return Git(folder) if os.path.lexists(folder / ".git") else None


def opened(folder: Path) -> Git:
    """The repository checked out at a folder.

    Raises:
        UserError: there is none, or the folder is not its root.
    """
    git = Git(folder.resolve())
    if not git.folder.is_dir():
        raise UserError("no such checkout", where=folder, next_step="name a git clone's folder")
    well, output, words = git.tried("rev-parse", "--show-toplevel")
    root = Path(os.fsdecode(output.removesuffix(b"\n")))
    if not well:
        raise UserError("this is no git checkout", where=folder, got=words,
                        expected="the root of a clone with its files checked out",
                        next_step="git clone --recurse-submodules URL")
    if root.resolve() != git.folder:
        raise UserError("this is not the root of its git checkout", where=folder,
                        expected=root, next_step=f"name {root}")
    return git
