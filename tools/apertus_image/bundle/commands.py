"""What a user calls in a self-contained folder: `DIR/bin/NAME`, and what it all starts with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from apertus_image.tree.machine import Machine

__all__ = ["LEFT_OUT", "environment", "install"]

LEFT_OUT = ("bootstrap", "lock", "release", "test")
"""Commands that need apt, uv or pytest, or a commit: a release is made from a clone."""

COMMAND = """\
#!/bin/sh
# tools/{name}, with nothing of this machine but sh and coreutils; see ../environment.sh
dir=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd -P) || exit 127
. "$dir/environment.sh"
# Results and roots: the project's folder here is never changed.
export APERTUS_WORK="${{dir%/*}}/var"
PYTHONPATH=$dir/project/tools \\
    exec "$dir/programs/python3" -P -m apertus_image.commands.{module} "$@"
"""

ENVIRONMENT = """\
# What every command here starts with. In: dir, this folder. Sourced by sh, also by
# tools/run of a clone when APERTUS_BOOTSTRAP names this folder.
#
# Nothing of this machine's Python, Nix or git is used. What is written goes to ../store, ../var.
case $(uname -m) in
{machine}) ;;
*)
    echo "error: this folder is for {machine}, and this machine is $(uname -m): $dir" >&2
    exit 3 ;;
esac
case $dir in
*:* | *';'* | *'?'*)  # lists of folders have these, and Nix's name of a store
    echo "error: a folder with : ; or ? in its path cannot be used: $dir" >&2
    exit 3 ;;
esac
unset CDPATH LD_AUDIT LD_LIBRARY_PATH LD_PRELOAD
unset NIX_CONFIG NIX_PATH NIX_REMOTE NIX_STORE NIX_STORE_DIR
unset PYTHONEXECUTABLE PYTHONHOME PYTHONINSPECT PYTHONOPTIMIZE PYTHONPATH PYTHONPLATLIBDIR
APERTUS_BOOTSTRAP=$dir
PATH=$dir/programs:${{PATH:-/usr/bin:/bin}}
# Beside the versions, which are never changed.
APERTUS_STORE=${{APERTUS_STORE:-${{dir%/*}}/store}}
if [ ! -d "${{HOME:-}}" ]; then
    HOME=${{dir%/*}}/var/home
    mkdir -p "$HOME" || :
fi
PYTHONNOUSERSITE=1
# By the folder's identity: all its files have one time, so times cannot tell old code.
PYTHONPYCACHEPREFIX=${{dir%/*}}/var/bytecode/{identity}
NIX_CONF_DIR=$dir/share/none
NIX_USER_CONF_FILES=$dir/share/none/nix.conf
export APERTUS_BOOTSTRAP APERTUS_STORE HOME PATH PYTHONNOUSERSITE PYTHONPYCACHEPREFIX
export NIX_CONF_DIR NIX_USER_CONF_FILES
"""


def install(names: Iterable[str], folder: Path) -> None:
    """Write `bin/NAME` for each command of the project; `share/none` stays empty."""
    (folder / "bin").mkdir()
    (folder / "share/none").mkdir(parents=True)
    for name in names:
        if name not in LEFT_OUT:
            script = folder / "bin" / name
            script.write_text(COMMAND.format(name=name, module=name.replace("-", "_")))
            script.chmod(0o755)


def environment(folder: Path, identity: str, machine: Machine) -> None:
    """Write `environment.sh`, the last file, since it carries the identity of the others."""
    (folder / "environment.sh").write_text(
        ENVIRONMENT.format(identity=identity[:12], machine=machine.name))
