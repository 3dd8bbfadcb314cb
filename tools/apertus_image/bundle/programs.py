"""Debian's programs in a folder that may lie anywhere.

Each is started by a few lines of sh: the folder's own loader, with the folder's own libraries.
An ELF file names its loader by an absolute path, so without /nix and without root nothing else
lets it move.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from apertus_image.debian.unpack import Root
from apertus_image.errors import UserError
from apertus_image.tree.machine import Machine

__all__ = ["PROGRAMS", "install"]

PYTHON = "python3.13"
PIP = "lib/python3/dist-packages/pip"
"""Asked for its indexes; nothing is installed with it."""
PROGRAMS = (PYTHON, "docker-registry", "git", "jq", "mksquashfs", "nix", "unsquashfs", "zstd")
NIX = ("nix-build", "nix-collect-garbage", "nix-copy-closure", "nix-hash", "nix-instantiate",
       "nix-store")
"""Names that nix goes by: it looks at the one it is called with."""

# Of git's own folder: what clones over HTTP and what reads submodules. All else is in `git`.
GIT_PROGRAMS = ("git-remote-http", "git-sh-i18n--envsubst")
GIT_SCRIPTS = ("git-sh-i18n", "git-sh-setup", "git-submodule")
# Its own, by the name each is called with.
GIT_LINKS = {"git-remote-https": "git-remote-http", "git-receive-pack": "git",
             "git-upload-archive": "git", "git-upload-pack": "git"}

# Modules that no tool imports.
UNUSED = ("ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtle.py",
          "turtledemo", "sitecustomize.py", "EXTERNALLY-MANAGED", "lib-dynload/_curses*",
          "lib-dynload/_dbm*", "lib-dynload/_gdbm*", "lib-dynload/_test*", "lib-dynload/_xx*",
          "lib-dynload/readline*", "lib-dynload/xx*", "config-*")

# Only builtins of sh: whoever starts a program may have given it no PATH. 0 is the name that
# it was called by, which nix and git look at.
WRAPPER = """\
#!/bin/sh
# Start {name} with the loader and the libraries of this folder.
unset CDPATH LD_AUDIT LD_LIBRARY_PATH LD_PRELOAD
dir=${{0%/*}}
[ "$dir" != "$0" ] || dir=.
dir=$(cd -P "$dir/{up}" && pwd -P) || exit 127
{settings}exec "$dir/lib/{loader}" --inhibit-cache --library-path "$dir/lib/{triplet}" \\
    --argv0 "$0" "$dir/libexec/{name}" "$@"
"""
# Nix starts itself for each build (its build hook): by /proc/self/exe, which is the loader here,
# unless this variable names a folder (its self-exe.cc).
SETTINGS = {
    "nix": 'export NIX_BIN_DIR="$dir/programs"\n',
    PYTHON: "unset PYTHONEXECUTABLE PYTHONHOME PYTHONPLATLIBDIR\n",
    "git": 'export GIT_EXEC_PATH="$dir/lib/git-core" GIT_TEMPLATE_DIR="$dir/share/none"\n',
}


def install(debs: Iterable[tuple[str, Path]], machine: Machine, folder: Path) -> None:
    """Make `programs/`, `libexec/` and `lib/` below `folder`, out of packages.

    No program is run, so it may be any machine's folder.

    Args:
        debs: (package name, file).

    Raises:
        UserError: a package is damaged, two bring one path, or a program is in none.
    """
    triplet = machine.triplet
    kept = (*(f"usr/bin/{name}" for name in PROGRAMS), f"usr/lib/{triplet}/*.so*",
            f"usr/lib/{PYTHON}/*", f"usr/{PIP}/*",
            *(f"usr/lib/git-core/{name}" for name in (*GIT_PROGRAMS, *GIT_SCRIPTS)))
    scratch = folder / "unpacked"
    root = Root(scratch, left_out=("*",), kept=kept)
    for package, deb in debs:
        root.unpack(package, deb)
    usr = scratch / "usr"
    for name in ("programs", "libexec", "lib/git-core"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _libraries(usr / "lib" / triplet, folder / "lib" / triplet)
    _python(usr / "lib" / PYTHON, folder / "lib" / PYTHON)
    loader = f"{triplet}/{Path(machine.loader).name}"
    if not (folder / "lib" / loader).exists():
        raise UserError("no package has the loader", where=loader, next_step="tools/lock bundle")

    def program(source: Path) -> None:
        if not source.is_file():
            raise UserError("no package has a program of the folder", where=source.name,
                            next_step="tools/lock bundle")
        source.replace(folder / "libexec" / source.name)

    def wrapper(place: str, up: str) -> None:
        target = folder / place
        target.write_text(WRAPPER.format(name=target.name, up=up, loader=loader, triplet=triplet,
                                         settings=SETTINGS.get(target.name, "")))
        target.chmod(0o755)

    for name in PROGRAMS:
        program(usr / "bin" / name)
        wrapper(f"programs/{name}", "..")
    for name in NIX:
        (folder / "programs" / name).symlink_to("nix")
    (folder / "programs/python3").symlink_to(PYTHON)
    core = folder / "lib/git-core"
    for name in GIT_PROGRAMS:
        program(usr / "lib/git-core" / name)
    # No link leads out of a folder: a wrapper finds its own by the name it was called with.
    for name in (*GIT_PROGRAMS, "git"):
        wrapper(f"lib/git-core/{name}", "../..")
    for name in GIT_SCRIPTS:
        (usr / "lib/git-core" / name).replace(core / name)
    for name, target in GIT_LINKS.items():
        (core / name).symlink_to(target)
    if not (usr / PIP).is_dir():
        raise UserError("no package has pip", where=PIP, next_step="tools/lock bundle")
    (folder / PIP).parent.mkdir(parents=True)
    (usr / PIP).rename(folder / PIP)
    shutil.rmtree(scratch)


def _libraries(source: Path, target: Path) -> None:
    """The shared libraries themselves; what lies in folders below are plug-ins of others."""
    target.mkdir(parents=True)
    for each in sorted(source.iterdir()):
        if ".so" in each.name and (each.is_symlink() or each.is_file()):
            each.rename(target / each.name)
    for each in target.iterdir():
        if each.is_symlink() and not each.exists():
            each.unlink()


def _python(source: Path, target: Path) -> None:
    # Each name is compared: a literal one in glob misses links to nothing before Python 3.13.
    found = [path for path in (*source.iterdir(), *source.glob("lib-dynload/*"))
             if any(fnmatchcase(str(path.relative_to(source)), each) for each in UNUSED)]
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    source.rename(target)
