"""bundle/seed.sh on a small project: two packages pinned, a loader that tells how it is called."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from apertus_image.pins import lockfile
from apertus_image.tree.machine import this_machine
from support import debs, images
from support.bare import PROGRAMS

SEED = images.PROJECT / "tools/apertus_image/bundle/seed.sh"
LIB = f"usr/lib/{this_machine().triplet}"
POOL = "pool/main/l/lib+x"
DATE = "Sat, 31 Jan 2026 09:15:44 UTC"
PACKAGES = ["debs/lib+bundle_1.0_amd64.deb", "debs/lib+toolchain_1.0_amd64.deb"]
# In the loader's place: it tells what it is started with.
LOADER = """\
#!/bin/sh
case "$*" in *" -c "*) exit ;; esac  # whether it starts at all
printf '%s\\n' "$*" "mirrors: $APERTUS_DEBIAN_MIRRORS" "seed: $APERTUS_SEED"
echo "led by: ${LD_AUDIT-}${NIX_CONFIG-}${PYTHONINSPECT-}${PYTHONPLATLIBDIR-}"
cat "$PYTHONHOME/lib/python3/dist-packages/certifi/core.py" "$APERTUS_SEED/certificates.crt"
exit ${RESULT:-0}
"""


def make(top: Path, *, mode: int = 0o755, compression: str = "xz", more: bytes = b"") -> Path:
    """A project in `top/project` with two packages pinned, which lie in `top/mirror`.

    Args:
        mode: of the loader.
        more: a further file's bytes.
    """
    mirror, pins = top / "mirror", top / "project/nix/pins"
    pins.mkdir(parents=True)
    packages = {"toolchain": [debs.file(f"{LIB}/{Path(this_machine().loader).name}", LOADER, mode),
                              debs.file("usr/bin/python3.13", "", 0o755),
                              debs.file("usr/share/more", more)],
                "bundle": [debs.file("usr/lib/python3/dist-packages/certifi/core.py",
                                     "'/etc/ssl/certs/ca-certificates.crt'\n"),
                           debs.file("usr/share/ca-certificates/mozilla/a.crt", "one\n"),
                           debs.file("usr/share/ca-certificates/mozilla/b.crt", "two\n")]}
    for lock, members in packages.items():
        deb = Path(debs.make(mirror / POOL, f"lib+{lock}", members,
                             compression=compression)["path"])
        pin = {"name": lock, "path": f"{POOL}/{deb.name}", "size": deb.stat().st_size,
               "sha256": hashlib.sha256(deb.read_bytes()).hexdigest()}
        other = pin | {"path": "pool/other/machine.deb"}
        ours = this_machine().debian
        keys = ("name", "path", "sha256", "size")  # in this order, as tools/lock writes them
        lockfile.write({"date": DATE} | {each: [
            {key: (pin if each == ours else other)[key] for key in keys}
        ] for each in ("amd64", "arm64")}, pins / f"{lock}.json")
    return top / "project"


def command(project: Path, *arguments: str) -> list[str | Path]:
    return ["sh", SEED, project, *(arguments or ["DIR"])]


def surroundings(project: Path, **variables: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(project.parent / "cache"),
            "APERTUS_DEBIAN_MIRRORS": str(project.parent / "mirror")} | variables


def seed(project: Path, *arguments: str, without: str = "", **variables: str
         ) -> subprocess.CompletedProcess[str]:
    """Run it with a cache and a mirror beside the project.

    Args:
        without: a variable that is not to be set.
    """
    given = surroundings(project, **variables)
    given.pop(without, None)
    return subprocess.run(command(project, *arguments), capture_output=True, text=True,
                          timeout=60, env=given)


def cache(project: Path) -> list[str]:
    """The files in its cache."""
    folder = project.parent / "cache/apertus-image/seed"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def only(folder: Path, *more: str) -> str:
    """A PATH with what a bare machine has, and these."""
    folder.mkdir()
    for name in (*PROGRAMS, *more):
        (folder / name).symlink_to(shutil.which(name))
    return str(folder)


def program(folder: Path, name: str, text: str) -> None:
    """Another program in the place of one."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
