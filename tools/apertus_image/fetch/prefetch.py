"""Bringing every missing input into the store, in parallel."""

from __future__ import annotations

import contextlib
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from packaging.metadata import parse_email
from packaging.utils import canonicalize_name, canonicalize_version

from apertus_image.errors import UserError
from apertus_image.fetch import bootstrap
from apertus_image.fetch.cache import alone, forget, room
from apertus_image.fetch.download import DiskFull, Unavailable, download
from apertus_image.fetch.places import Places
from apertus_image.fetch.plan import Bootstrap, Input
from apertus_image.fetch.web import Down
from apertus_image.pins.names import store_name
from apertus_image.store.store import Store

__all__ = ["Result", "check_wheel", "missing", "prefetch"]

TOLD = 5  # failures told in full


@dataclass(frozen=True)
class Result:
    """What a prefetch did: files that were there, files brought, bytes brought."""

    present: int
    fetched: int
    bytes: int


class _Stopped(Exception):
    """Another download's fault, or the user, ended the run; the part is kept."""


def missing(wanted: list[Input], boot: Bootstrap, store: Store) -> list[Input]:
    """The files that the store lacks; what it holds is not read."""
    valid = store.valid([each.store_path for each in wanted] + [boot.store_path])
    found = [each for each in wanted if each.store_path not in valid]
    return found + (list(boot.debs) if boot.store_path not in valid else [])


def prefetch(
    wanted: list[Input],
    boot: Bootstrap,
    store: Store,
    cache: Path,
    *,
    jobs: int = 8,
    progress: Callable[[int, int], Callable[[int], None]] = lambda _n, _b: lambda _c: None,
    waiting: Callable[[], None] = lambda: None,
) -> Result:
    """Bring what the store lacks; what it holds is not read again.

    Args:
        cache: directory for parts and for files on their way into the store; one run at
            a time has it, another waits.
        jobs: downloads at a time.
        progress: given the number and bytes of missing inputs, gives what each chunk
            is told to.
        waiting: called if another run has the cache, before waiting for it.

    Raises:
        UserError: listing every input that cannot be had. Those that could are in the
            store by then, and are not asked for again.
    """
    if not cache.exists() and not missing(wanted, boot, store):
        return Result(len(wanted) + len(boot.debs), 0, 0)
    with alone(cache, waiting):
        needed = missing(wanted, boot, store)
        forget(cache, {*wanted, *boot.debs} - {*needed})
        total = sum(each.pin.size for each in needed)
        room(cache, store, needed, jobs)
        failures = []
        if needed:
            told = progress(len(needed), total)
            failures = _Run(store, cache, jobs, told).bring(needed, boot)
        with contextlib.suppress(OSError):
            cache.rmdir()
    _report(failures)
    return Result(len(wanted) + len(boot.debs) - len(needed), len(needed), total)


class _Run:
    """Downloads of one run, which end together."""

    def __init__(
        self, store: Store, cache: Path, jobs: int, told: Callable[[int], None]
    ) -> None:
        self._store, self._cache, self._jobs, self._told = store, cache, jobs, told
        self._stop = threading.Event()
        self._down = Down()

    def bring(self, needed: list[Input], boot: Bootstrap) -> list[UserError]:
        """Bring all; give the failures that do not end the run."""
        self._places = Places(self._jobs, self._wait, self._down)
        failures: list[UserError] = []
        pool = ThreadPoolExecutor(self._jobs)
        try:
            futures = []
            debs = [each for each in needed if each in boot.debs]
            if debs:
                futures.append(pool.submit(self._bootstrap, boot))
            # The largest first: the last to end are small then.
            for each in sorted(needed, key=lambda each: -each.pin.size):
                if each not in debs:
                    futures.append(pool.submit(self._input, each))
            for future in as_completed(futures):
                try:
                    future.result()
                except DiskFull:
                    raise
                except UserError as failure:
                    failures.append(failure)
        finally:
            # Ctrl-C too ends here: what has not begun does not, what has stops.
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self._places.close()
        return failures

    def _input(self, each: Input) -> None:
        try:
            file = self._file(each)
        except Unavailable as failure:
            self._substitute(failure, each.store_path)
            return
        if each.kind == "wheel":
            try:
                check_wheel(file, each.name, each.version)
            except UserError:
                shutil.rmtree(file.parent)
                raise
        with _full(file, each.pin.size):
            added = self._store.add_file(file)
        shutil.rmtree(file.parent)
        if added != each.store_path:
            raise UserError("the store put an input elsewhere", where=each.pin.file,
                            expected=each.store_path, got=added)

    def _bootstrap(self, boot: Bootstrap) -> None:
        try:
            debs = [(each.name, self._file(each)) for each in boot.debs]
        except Unavailable as failure:
            self._substitute(failure, boot.store_path)
            return
        with _full(self._cache, sum(each.pin.size for each in boot.debs)):
            bootstrap.add(debs, boot.system, boot.sha256, self._store)
        for _, file in debs:
            shutil.rmtree(file.parent)

    def _file(self, each: Input) -> Path:
        """An input's file in the cache, under its store name."""
        folder = self._cache / each.pin.sha256
        try:
            return download(
                self._places.session(each), each.pin, self._places(each), folder,
                self._chunk, self._wait, down=self._down, name=store_name(each.pin.file),
            )
        except Unavailable:
            with contextlib.suppress(OSError):
                folder.rmdir()  # unless it holds a part
            raise

    def _substitute(self, failure: Unavailable, path: str) -> None:
        """Take a path from a Nix cache of the user's, the last place there is."""
        if not self._store.substitute(path):
            raise failure
        self._chunk(failure.pin.size)

    def _chunk(self, count: int) -> None:
        self._told(count)
        if self._stop.is_set():
            raise _Stopped

    def _wait(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped


def _report(failures: list[UserError]) -> None:
    """All failures in one error; gone Debian packages have a remedy of their own."""
    if not failures:
        return
    failures = sorted(failures, key=lambda failure: str(failure.where))
    lines = [str(_without_advice(failure)) for failure in failures[:TOLD]]
    if rest := failures[TOLD:]:
        lines.append(f"and {len(rest)} more: " + ", ".join(str(each.where) for each in rest))
    absent = [each for each in failures if isinstance(each, Unavailable)]
    gone = [each.pin.file.partition("_")[0] for each in absent
            if each.gone and each.pin.file.endswith(".deb")]
    if gone:
        advice = (f"if mirrors have dropped {', '.join(gone)} since the lock, re-pin those alone: "
                  "tools/lock debian --gone")
    elif absent and not any(each.gone for each in absent):
        advice = "nothing answers: check the network, then run the same command again: it resumes"
    else:
        advice = "see docs/recovery.md; the same command goes on with what is missing"
    count = f"{len(failures)} inputs" if len(failures) > 1 else "an input"
    raise UserError(f"{count} could not be brought\n" + "\n".join(lines), next_step=advice)


def _without_advice(failure: UserError) -> UserError:
    """A failure without its next step, if that is told once for all."""
    if not isinstance(failure, Unavailable):
        return failure
    return UserError(failure.what, where=failure.where, expected=failure.expected,
                     got=failure.got)


def check_wheel(file: Path, name: str, version: str) -> None:
    """Refuse a wheel whose own METADATA says another name or version than its pin.

    Raises:
        UserError: telling both.
    """
    try:
        with zipfile.ZipFile(file) as wheel:
            member = min((n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")),
                         key=lambda n: n.count("/"))
            metadata, _ = parse_email(wheel.read(member))
    except (zipfile.BadZipFile, ValueError) as error:
        raise UserError("not a wheel", where=file.name, got=error) from error
    found = (canonicalize_name(metadata.get("name", "")),
             canonicalize_version(metadata.get("version", "")))
    if found != (canonicalize_name(name), canonicalize_version(version)):
        raise UserError(
            "a wheel is not what its pin says", where=file.name,
            expected=f"{name} {version}", got=f"{metadata.get('name')} {metadata.get('version')}",
            next_step="tools/lock wheels",
        )


@contextlib.contextmanager
def _full(place: Path, size: int) -> Iterator[None]:
    """Tell a full disk that Nix meets as the downloads do, so that it ends the run."""
    try:
        yield
    except UserError as failure:
        if "No space left on device" in str(failure.got):
            raise DiskFull(place, size) from failure
        raise
