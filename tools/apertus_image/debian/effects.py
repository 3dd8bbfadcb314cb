"""What maintainer scripts would have done, declared: no script of a package is run.

Each effect is here because something in the image needs it; everything else that a script
would do (users of daemons, systemd units, triggers) is left undone, and the image lists
the scripts that were skipped.
"""

from __future__ import annotations

from pathlib import Path

from apertus_image.debian.unpack import Root
from apertus_image.errors import UserError

__all__ = ["FOLDERS", "LEFT_OUT", "LEFT_OUT_BUT_KEPT", "LINKS", "apply"]

LEFT_OUT = (
    "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*", "usr/share/lintian/*",
    # What lies in a package's folder, not the folder: of some it is a link to another's, and
    # with it to the copyright.
    "usr/share/bug/*", "usr/share/doc/*/*", "usr/share/doc-base/*", "usr/share/bash-completion/*",
    "usr/share/zsh/*", "usr/share/fish/*", "var/cache/*", "var/log/*",
    # Debian's own hook marks its Python as not to be added to; ours is /opt/apertus.
    "usr/lib/python3*/EXTERNALLY-MANAGED",
)
LEFT_OUT_BUT_KEPT = ("usr/share/doc/*/copyright",)

# base-files' postinst and the mounts of Enroot want these to be there, and real folders.
FOLDERS = (
    "etc", "home", "media", "mnt", "opt", "proc", "root", "run/lock", "srv", "sys", "tmp", "dev",
    "usr/local/bin", "usr/local/lib", "usr/local/sbin", "usr/local/share", "var/cache", "var/lib",
    "var/log", "var/spool", "var/tmp",
)

# path: (target, whose script would have made it)
LINKS = {
    "etc/localtime": ("/usr/share/zoneinfo/Etc/UTC", "tzdata"),
    "etc/mtab": ("../proc/self/mounts", "base-files"),
    "usr/bin/awk": ("mawk", "mawk"),
    "usr/bin/c++": ("g++", "g++"),
    "usr/bin/cc": ("gcc", "gcc"),
    "usr/bin/nawk": ("mawk", "mawk"),
    "usr/bin/pager": ("less", "less"),
    "usr/bin/python3": ("python3.13", "python3.13"),
    "usr/bin/which": ("which.debianutils", "debianutils"),
    # Sockets are mounted below /run and looked for below /var/run.
    "var/lock": ("/run/lock", "base-files"),
    "var/run": ("/run", "base-files"),
}

# A login shell is what Enroot starts, so PATH must come through unchanged (facts on
# Enroot, 0.5): only a shell that has none gets one.
PROFILE = """\
# /etc/profile: for login shells. PATH is the image's own and stays as it is.
if [ -z "${PATH:-}" ]; then
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    export PATH
fi
for file in /etc/profile.d/*.sh; do
    [ -r "$file" ] && . "$file"
done
unset file
"""

NSSWITCH = """\
passwd:   files
group:    files
shadow:   files
hosts:    files dns
networks: files
services: files
"""


def apply(root: Root, scripts: list[str]) -> None:
    """Bring about the declared effects in an unpacked root.

    Args:
        scripts: `package: script` of everything that was skipped.

    Raises:
        UserError: a package has files where a declared link has to be.
    """
    for folder in FOLDERS:
        (root.folder / folder).mkdir(parents=True, exist_ok=True)
    for path, (target, package) in LINKS.items():
        present = root.folder / path
        needed = root.folder / target[1:] if target.startswith("/") else present.parent / target
        # A small selection of packages does not have every link's target.
        if not present.is_symlink() and (needed.exists() or path == "etc/mtab"):
            if present.is_dir():
                _make_way(present, path)
            root.link(package, path, target)
            root.origins[f"/{path}"] = "generated"
    master = root.folder / "usr/share/base-passwd"
    root.write("etc/passwd", (master / "passwd.master").read_text())
    root.write("etc/group", (master / "group.master").read_text())
    root.write("etc/nsswitch.conf", NSSWITCH)
    root.write("etc/profile", PROFILE)
    root.write("etc/environment", "")
    root.write("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")
    root.write("etc/machine-id", "")
    _certificates(root)
    root.write("usr/share/apertus/skipped-maintainer-scripts",
               "".join(f"{line}\n" for line in sorted(scripts)))
    root.write("usr/share/apertus/dropped-privileges",
               "".join(f"{line}\n" for line in sorted(root.privileged)))


def _make_way(folder: Path, path: str) -> None:
    """Remove an empty folder of base-files', which its script would make a link."""
    if found := sorted(each.name for each in folder.iterdir()):
        raise UserError("a package has files where a link has to be", where=f"/{path}",
                        expected="an empty folder", got=", ".join(found),
                        next_step="leave the package out of nix/pins/userland.packages")
    folder.rmdir()


def _certificates(root: Root) -> None:
    """update-ca-certificates: one bundle, and a link for each certificate."""
    source = root.folder / "usr/share/ca-certificates"
    certificates = sorted(source.rglob("*.crt"))
    if not certificates:
        return
    bundle = "".join(file.read_text().rstrip("\n") + "\n" for file in certificates)
    root.write("etc/ssl/certs/ca-certificates.crt", bundle)
    names = [str(file.relative_to(source)) for file in certificates]
    root.write("etc/ca-certificates.conf", "".join(f"{name}\n" for name in names))
    for name in names:
        link = f"etc/ssl/certs/{Path(name).stem}.pem"
        root.link("ca-certificates", link, f"/usr/share/ca-certificates/{name}")
        root.origins[f"/{link}"] = "generated"
