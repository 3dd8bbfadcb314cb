"""User namespaces, without which Nix cannot build below a directory as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys

from apertus_image.errors import UserError

__all__ = ["insist"]

# What Nix does first for a build: a name space of users and mounts, its mounts private.
TRIAL = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
NEWUSER_AND_NEWNS, REC_AND_PRIVATE = 0x10000000 | 0x20000, 0x4000 | 0x40000
if libc.unshare(NEWUSER_AND_NEWNS) or libc.mount(b"none", b"/", None, REC_AND_PRIVATE, None):
    sys.exit(os.strerror(ctypes.get_errno()))
"""


def insist() -> None:
    """Refuse to begin a build that could only fail.

    Raises:
        UserError: this process may not make a user namespace: the kernel's or the site's
            settings forbid it, or it runs in a chroot.
    """
    if os.geteuid() == 0:
        return
    result = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True)
    if result.returncode:
        raise UserError(
            "a build by an ordinary user needs user namespaces, and there are none here",
            where=os.uname().nodename, got=result.stderr.strip().splitlines()[-1],
            expected="unshare --user --mount to work, outside any chroot",
            next_step="build on another machine and bring the result with nix copy "
                      "(docs/site.md), or ask the site for user.max_user_namespaces > 0")
