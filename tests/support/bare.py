"""A bare machine: sh, sed, tar and xz; an ordinary user, no root, /nix, daemon or Python."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
from pathlib import Path

USER = 12345
PROGRAMS = ("cat", "chmod", "cp", "cut", "date", "dirname", "env", "head", "id", "ls", "mkdir",
            "mv", "readlink", "rm", "sed", "sh", "sha256sum", "sort", "tail", "tar", "touch", "tr",
            "uname", "wc", "xz")
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x1000, 0x4000, 0x40000, 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def machine(root: Path, busybox: Path) -> Path:
    """Make the file system: a static busybox by the names that sh and coreutils have."""
    for name in ("bin", "dev", "etc", "home", "old", "proc", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "bin/busybox").write_bytes(busybox.read_bytes())
    (root / "bin/busybox").chmod(0o755)
    for name in PROGRAMS:
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text(f"user:x:{USER}:{USER}::/home:/bin/sh\n")
    own(root / "home")
    return root


def own(folder: Path) -> None:
    """Give a folder and what is in it to the ordinary user."""
    subprocess.run(["chown", "-R", f"{USER}:{USER}", folder], check=True)


def run(root: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command there as the ordinary user, with these variables and no others.

    The root is exchanged by pivot_root: in a chroot the kernel makes no user namespaces.
    """
    return subprocess.run(
        command, capture_output=True, text=True, cwd="/", preexec_fn=lambda: _enter(root),
        env={"PATH": "/bin", **variables})


def possible() -> bool:
    """Whether a test can make such a machine here: it needs root, and user namespaces."""
    if os.geteuid() != 0 or platform.machine() not in PIVOT_ROOT:
        return False
    trial = "import os; os.setuid(12345); os.unshare(os.CLONE_NEWUSER)" \
        if hasattr(os, "unshare") else \
        "import ctypes, os; os.setuid(12345); ctypes.CDLL(None).unshare(0x10000000) and os._exit(1)"
    return subprocess.run(["python3", "-c", trial], capture_output=True).returncode == 0


def _enter(root: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def must(failed: int) -> None:
        if failed:
            raise OSError(ctypes.get_errno(), "no bare machine for the test")

    def mount(source: str, target: Path, kind: str | None, flags: int) -> None:
        must(libc.mount(os.fsencode(source), os.fsencode(target), kind and kind.encode(),
                        flags, None))

    must(libc.unshare(CLONE_NEWNS))
    mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    mount(str(root), root, None, MS_BIND)
    mount("proc", root / "proc", "proc", 0)
    mount("/dev", root / "dev", None, MS_BIND | MS_REC)
    must(libc.syscall(PIVOT_ROOT[platform.machine()], os.fsencode(root),
                      os.fsencode(root / "old")))
    os.chdir("/")
    must(libc.umount2(b"/old", MNT_DETACH))
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
