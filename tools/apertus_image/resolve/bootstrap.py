"""The bootstrap's lock says what its packages unpack to, since that is what builds use."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from apertus_image.fetch import bootstrap, plan, sources
from apertus_image.fetch.download import download
from apertus_image.fetch.places import of_package
from apertus_image.fetch.web import new_session
from apertus_image.resolve.apt import ARCHITECTURES
from apertus_image.tree.machine import MACHINES

__all__ = ["with_trees"]


def with_trees(lock: dict[str, Any]) -> dict[str, Any]:
    """The lock with the NAR hash of the unpacked tree (trap 6) for each machine.

    Args:
        lock: of Debian packages, bash-static and busybox-static for each architecture.

    Raises:
        UserError: a package cannot be had, or has no static program.
    """
    mirrors, snapshots = sources.debian_mirrors(), sources.debian_snapshots()
    trees = {}
    with (new_session(sources.ca_bundle() or True) as session,
          tempfile.TemporaryDirectory(prefix="apertus-bootstrap-") as scratch):
        session.proxies = sources.apt_proxies()
        for machine in MACHINES.values():
            debs = []
            for each in plan.inputs_of(lock, machine.debian):
                here = of_package(each, mirrors, snapshots)
                debs.append((each.name, download(session, each.pin, here, Path(scratch, "debs"))))
            folder = Path(scratch, machine.name)
            bootstrap.unpack(debs, folder)
            trees[machine.name] = bootstrap.nar_sha256(folder)
    head = {key: value for key, value in lock.items() if key not in (*ARCHITECTURES, "tree")}
    return head | {"tree": trees} | {name: lock[name] for name in ARCHITECTURES}
