"""The cache that downloads lie in until they are in the store: a folder a file, by its hash."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.fetch.plan import Input
from apertus_image.store.paths import STORE
from apertus_image.store.store import Store

__all__ = ["alone", "forget", "room"]

FORGOTTEN = 14 * 24 * 3600.0  # seconds after which a part is nobody's any more


@contextlib.contextmanager
def alone(cache: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Have the cache for this run: two runs would write into one another's parts."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = cache.with_name(f"{cache.name}.lock").open("w")
    except OSError as error:
        raise UserError("the download cache cannot be written", where=cache, got=error.strerror,
                        next_step="set XDG_CACHE_HOME to a directory of yours") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        cache.mkdir(exist_ok=True)  # the other run may have removed it with its last file
        yield


def room(cache: Path, store: Store, needed: list[Input], jobs: int) -> None:
    """Refuse to begin what cannot end.

    A file lies in the cache until it is in the store; of all, `jobs` are on their way.
    """
    sizes = sorted((each.pin.size for each in needed), reverse=True)
    demands: dict[int, tuple[Path, int]] = {}
    for path, size in ((cache, sum(sizes[:jobs])), (store.physical(STORE), sum(sizes))):
        folder = _existing(path)
        _, before = demands.get(folder.stat().st_dev, (folder, 0))
        demands[folder.stat().st_dev] = (folder, before + size)
    for folder, size in demands.values():
        if (free := shutil.disk_usage(folder).free) < size:
            raise UserError("not enough room for the inputs", where=folder,
                            expected=f"{size} bytes", got=f"{free} bytes free",
                            next_step="make room, or set XDG_CACHE_HOME, or --store, to a "
                            "larger disk")


def forget(cache: Path, present: set[Input]) -> None:
    """Drop files that are in the store, and parts that no lock has asked for in a long time."""
    digests = {each.pin.sha256 for each in present}
    for item in cache.iterdir():
        if not item.is_dir():
            item.unlink()
        elif item.name in digests or time.time() - item.stat().st_mtime > FORGOTTEN:
            shutil.rmtree(item, ignore_errors=True)


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
