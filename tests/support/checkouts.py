"""Git repositories for tests, with submodules, on no settings of this machine's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

DATE = "2026-07-15T00:00:00Z"


def git(folder: Path, *arguments: str | Path, **more) -> str:
    """The output of a git command; local repositories may be cloned as submodules."""
    kept = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    result = subprocess.run(
        ["git", "-C", folder, "-c", "user.name=A Test", "-c", "user.email=t@example.org",
         "-c", "protocol.file.allow=always", *arguments], capture_output=True, text=True,
        env=kept, **more)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def commit(folder: Path, message: str = "more") -> str:
    """Commit all there is; the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def repository(folder: Path, files: dict[str, str | bytes], *options: str) -> Path:
    """A repository with one commit; a text that begins with `-> ` is a link's target."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main", *options)
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str) and content.startswith("-> "):
            file.symlink_to(content[3:])
        else:
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            file.chmod(0o755 if path.startswith("bin/") else 0o644)
    commit(folder, "first")
    return folder


def submodule(folder: Path, other: Path, path: str) -> None:
    """Add another repository as a submodule, and commit that."""
    git(folder, "submodule", "--quiet", "add", other, path)
    commit(folder, f"add {path}")


def nested(folder: Path) -> Path:
    """A repository with a submodule `mod`, which has one itself, `deep`."""
    deepest = repository(folder / "deepest", {"d.py": "d = 1\n"})
    inner = repository(folder / "inner", {"i.py": "i = 1\n", ".gitignore": "*.log\n"})
    submodule(inner, deepest, "deep")
    outer = repository(folder / "outer", {"a.py": "a = 1\n", ".gitignore": "*.log\nbuild/\n",
                                          "bin/run": "#!/bin/sh\n", "link": "-> a.py"})
    submodule(outer, inner, "mod")
    return outer


def cloned(origin: Path, to: Path) -> Path:
    """A clone with its submodules."""
    git(origin, "clone", "--quiet", "--recurse-submodules", origin, to)
    return to
