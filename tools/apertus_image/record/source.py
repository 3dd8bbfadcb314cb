"""What state a git checkout is in: its commit, its submodules, and all that differs from them.

Nothing of the user's own settings counts: what git is told to ignore or to overlook outside the
tracked `.gitignore` files is seen here, so that everybody sees the same (case 32).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apertus_image.errors import UserError

__all__ = ["SourceState", "environment", "git", "state"]

GITLINK = "160000"
# core.fsmonitor would run a program that the checkout names; a protocol would fetch what a partial
# clone lacks (GIT_NO_LAZY_FETCH came with git 2.44); the others would hide changes.
SETTINGS = {"core.fsmonitor": "false", "core.fileMode": "true", "core.ignoreStat": "false",
            "core.excludesFile": "/dev/null", "core.quotePath": "false", "protocol.allow": "never"}
# Neither the index is written nor an object fetched, and what replaces objects is not looked at.
SURROUNDINGS = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1",
                "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


@dataclass(frozen=True)
class SourceState:
    """A checkout, as it is.

    Attributes:
        commit: full hex.
        submodules: path -> the commit that the commit names, those of submodules too.
        findings: one error for each file that is modified or untracked, each submodule that is
            modified, missing or at another commit; none in a clean checkout.
    """

    commit: str
    submodules: Mapping[str, str] = field(default_factory=dict)
    findings: list[UserError] = field(default_factory=list)

    @property
    def dirty(self) -> bool:
        return bool(self.findings)


def state(folder: Path) -> SourceState:
    """Look at a checkout; nothing is changed, not even git's index.

    Args:
        folder: the top of a checkout, or of a worktree.

    Raises:
        UserError: it is none, git is missing, or there is no commit yet.
    """
    if not folder.is_dir() or git(folder, "rev-parse", "--show-prefix", check=False) != "\n":
        raise UserError("not the top folder of a git checkout", where=folder,
                        next_step="clone it with git; an unpacked archive has no commit")
    commit = git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False).strip()
    if not commit:
        raise UserError("a checkout has no commit yet", where=folder, next_step="git commit")
    named = _gitlinks(git(folder, "ls-tree", "-r", "-z", "HEAD"))
    staged = _gitlinks(git(folder, "ls-files", "--stage", "-z"))
    submodules, findings = dict(named), list(_files(folder, set(named) | set(staged)))
    for path in sorted({*named, *staged}):
        findings += _submodule(folder, path, named.get(path), staged.get(path))
        if path in named and (folder / path / ".git").exists():
            inner = state(folder / path)
            submodules |= {f"{path}/{below}": it for below, it in inner.submodules.items()}
            findings += [_within(path, each) for each in inner.findings]
    return SourceState(commit, dict(sorted(submodules.items())), findings)


def environment(folder: Path) -> dict[str, str]:
    """Variables of a git process that neither the user's settings nor a hook's tell anything."""
    settings = {**SETTINGS, "safe.directory": str(folder.resolve())}  # trap 10
    found = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    found |= SURROUNDINGS | {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """What a git command says, on settings that are not the user's.

    Raises:
        UserError: git is missing, or refuses (unless `check` is off: then it is empty).
    """
    try:
        result = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True,
                                env=environment(folder))
    except FileNotFoundError as error:
        raise UserError("git is not installed", next_step="tools/build --setup") from error
    if result.returncode and check:
        raise UserError("git refused", where=f"{folder}: git {arguments[0]}",
                        got=os.fsdecode(result.stderr).strip()[-2000:],
                        next_step="mend the checkout, or clone it again")
    return "" if result.returncode else os.fsdecode(result.stdout)


def _gitlinks(listing: str) -> dict[str, str]:
    """path -> commit, of what `ls-tree` or `ls-files --stage` lists as submodules."""
    found = {}
    for line in filter(None, listing.split("\0")):
        about, _, path = line.partition("\t")
        mode, *rest = about.split(" ")
        if mode == GITLINK:
            found[path] = rest[1] if rest[0] == "commit" else rest[0]
    return found


def _files(folder: Path, submodules: set[str]) -> Iterator[UserError]:
    """Every file that is not the commit's."""
    status = git(folder, "status", "--porcelain=v2", "-z", "--untracked-files=no",
                 "--ignore-submodules=all", "--no-renames")
    for line in sorted(filter(None, status.split("\0"))):
        kind, _, rest = line.partition(" ")
        path = rest.split(" ", 9 if kind == "u" else 7)[-1]
        if path not in submodules:
            yield UserError("a tracked file differs from the commit", where=folder / path,
                            next_step=f"git commit it, or: git checkout HEAD -- {path}")
    for line in sorted(filter(None, git(folder, "ls-files", "-v", "-z").split("\0"))):
        tag, path = line[0], line[2:]
        if tag.islower() or tag == "S":
            yield UserError("git is told to overlook changes of a tracked file",
                            where=folder / path, got="assume-unchanged or skip-worktree",
                            next_step="git update-index --no-assume-unchanged "
                                      f"--no-skip-worktree {path}")
    # Only the tracked .gitignore files count, not what this user or clone ignores.
    others = git(folder, "ls-files", "--others", "--exclude-per-directory=.gitignore", "-z")
    for path in sorted(filter(None, others.split("\0"))):
        if path.rstrip("/") not in submodules:
            yield UserError("a file is not tracked", where=folder / path,
                            next_step="git add and commit it, remove it, or name it in .gitignore")


def _submodule(folder: Path, path: str, named: str | None, staged: str | None
               ) -> Iterator[UserError]:
    where = folder / path
    if named != staged:
        yield UserError("a submodule's commit is changed but not committed", where=where,
                        expected=named or "no submodule", got=staged or "no submodule",
                        next_step="git commit it, or: git reset")
    if named is None:
        return
    if not (where / ".git").exists():
        # Asked for its commit, git would answer with that of the checkout around it.
        yield UserError("a submodule is not checked out", where=where, expected=named,
                        got="no checkout", next_step="git submodule update --init --recursive")
        return
    here = git(where, "rev-parse", "--verify", "--quiet", "HEAD", check=False).strip()
    if here != named:
        yield UserError("a submodule is at another commit", where=where, expected=named,
                        got=here or "no commit", next_step="git submodule update --recursive, or "
                        "commit the submodule's new commit")


def _within(module: str, finding: UserError) -> UserError:
    """A finding inside a submodule, which it names too."""
    return UserError(f"{finding.what} (submodule {module})", where=finding.where,
                     expected=finding.expected, got=finding.got, next_step=finding.next_step)
