"""The file system of a folder, and striping where it is Lustre."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["LAYOUT", "Striping", "filesystem", "stripe"]

MOUNTINFO = Path("/proc/self/mountinfo")

# The progressive layout of CSCS's ML guide (notes on Enroot and CSCS, 4): a small file is one
# piece, a large one lies over all targets.
LAYOUT = ("-E", "4M", "-c", "1", "-E", "64M", "-c", "4", "-E", "-1", "-c", "-1", "-S", "4M")

# The storage guide gives the last part 32 targets; a folder that has this is striped enough.
WIDE = 32

# lfs waits for the servers; a command must not wait for ever for what is only faster.
PATIENCE = 60


@dataclass(frozen=True)
class Striping:
    """What `stripe` did.

    Attributes:
        done: `set`; `kept`, a progressive layout was there; `none`, it is not Lustre or there
            is no lfs; `failed`.
        warning: for a user, why it failed, else None.
    """

    done: Literal["set", "kept", "none", "failed"]
    warning: str | None = None


def filesystem(path: Path, mountinfo: str | None = None) -> str | None:
    """The type of the file system that `path` is on or will be on: ext4, lustre, nfs4.

    Args:
        path: need not be there; links are resolved.
        mountinfo: the text of /proc/self/mountinfo (proc_pid_mountinfo(5)), default this
            process's.

    Returns:
        The type at the longest mount point above the path, the last mounted of equal ones;
        None where the table cannot be read or has none.
    """
    if mountinfo is None:
        try:
            mountinfo = os.fsdecode(MOUNTINFO.read_bytes())
        except OSError:
            return None
    real = Path(os.path.realpath(path))
    best, depth = None, -1
    # Not splitlines(): a mount point may hold characters that Python takes for line ends.
    for line in mountinfo.split("\n"):
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 6:
            continue
        point = Path(_unescape(fields[4]))
        if real.is_relative_to(point) and len(point.parts) >= depth:
            best, depth = _unescape(right.split(" ")[0]), len(point.parts)
    return best


def stripe(folder: Path, mountinfo: str | None = None) -> Striping:
    """Give new files in `folder` the progressive layout, where it is on Lustre and lfs is here.

    Only files written later get it, so it comes before writing. A folder that has such a
    layout keeps it. Nothing is raised: an unstriped file is only slower.

    Args:
        folder: is there.
        mountinfo: as for `filesystem`.
    """
    lfs = shutil.which("lfs")
    if lfs is None or filesystem(folder, mountinfo) != "lustre":
        return Striping("none")
    # lfs would take a relative name with a leading dash for an option.
    target = str(folder.absolute())
    try:
        if _progressive(_run([lfs, "getstripe", "-d", target])):
            return Striping("kept")
        _run([lfs, "setstripe", *LAYOUT, target])
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or "").strip() or str(error)
        return Striping("failed", f"{folder} was not striped, so reading it may be slow: {said}")
    return Striping("set")


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=PATIENCE).stdout


def _progressive(layout: str) -> bool:
    """Whether `lfs getstripe -d` tells of a layout from one target to many."""
    if "lcm_entry_count" not in layout:
        return False
    counts = [int(each) for each in re.findall(r"stripe_count:\s*(-?\d+)", layout)]
    return len(counts) > 1 and counts[0] == 1 and (counts[-1] == -1 or counts[-1] >= WIDE)


def _unescape(text: str) -> str:
    r"""Undo \040 and its like, which stand for blanks, newlines, backslashes (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
