"""Bringing every missing input into the store, in parallel."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote

import requests
from packaging.metadata import parse_email
from packaging.utils import canonicalize_name, canonicalize_version

from apertus_image.errors import UserError
from apertus_image.fetch import bootstrap, index, sources
from apertus_image.fetch.download import download
from apertus_image.fetch.plan import Bootstrap, Input
from apertus_image.pins.names import store_name
from apertus_image.store.store import Store

__all__ = ["Result", "check_wheel", "places", "prefetch"]



@dataclass(frozen=True)
class Result:
    """What a prefetch did: inputs that were there, inputs brought, bytes brought."""

    present: int
    fetched: int
    bytes: int


def prefetch(
    wanted: list[Input],
    boot: Bootstrap,
    store: Store,
    cache: Path,
    *,
    jobs: int = 8,
    progress: Callable[[int, int], Callable[[int], None]] = lambda _n, _b: lambda _c: None,
) -> Result:
    """Bring what the store lacks; what it holds is not read again.

    Args:
        cache: directory for parts and for files on their way into the store.
        jobs: downloads at a time.
        progress: given the number and bytes of missing inputs, gives what each chunk
            is told to.

    Raises:
        UserError: listing every input that cannot be had. Those that could are in the
            store by then, and are not asked for again.
    """
    valid = store.valid([each.store_path for each in wanted] + [boot.store_path])
    missing = [each for each in wanted if each.store_path not in valid]
    if boot.store_path not in valid:
        missing += boot.debs
    total = sum(each.pin.size for each in missing)
    told = progress(len(missing), total)
    if missing and shutil.disk_usage(_existing(cache)).free < 2 * total:
        raise UserError("not enough room for the inputs", where=cache,
                        expected=f"{2 * total} bytes (each is held twice on its way in)",
                        got=f"{shutil.disk_usage(_existing(cache)).free} bytes",
                        next_step="make room, or set XDG_CACHE_HOME to a larger disk")
    with requests.Session() as session, ThreadPoolExecutor(jobs) as pool:
        session.verify = sources.ca_bundle() or True
        session.mount("https://", requests.adapters.HTTPAdapter(pool_maxsize=jobs))
        session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=jobs))
        places_of = _Places(session)
        futures = {
            pool.submit(_bring, session, each, places_of, store, cache, told): each
            for each in sorted(missing, key=lambda each: -each.pin.size)
            if each not in boot.debs
        }
        failures = []
        if boot.store_path not in valid:
            try:
                debs = [(deb.name, download(session, deb.pin, places_of(deb), cache, told))
                        for deb in boot.debs]
                bootstrap.add(debs, boot.system, boot.sha256, store)
            except UserError as failure:
                failures.append(failure)
        for future in as_completed(futures):
            try:
                future.result()
            except UserError as failure:
                failures.append(failure)
    _report(failures, [each for each in missing if each.kind == "deb"])
    shutil.rmtree(cache, ignore_errors=True)
    return Result(len(wanted) + 1 - len(missing), len(missing), total)


def _report(failures: list[UserError], debs: list[Input]) -> None:
    """All failures in one error; gone Debian packages have a remedy of their own."""
    if not failures:
        return
    body = "\n".join(str(failure) for failure in failures)
    gone = [deb.name for deb in debs if any(f.where == deb.pin.file for f in failures)]
    raise UserError(
        f"{len(failures)} inputs could not be brought\n{body}",
        next_step=(
            f"if mirrors have dropped {', '.join(gone)} since the lock, re-pin those alone: "
            "tools/lock debian --gone" if gone else "run the same command again: it resumes"
        ),
    )


class _Places:
    """The places to ask for an input, asked of the machine once."""

    def __init__(self, session: requests.Session) -> None:
        self._session = session
        self._indexes = sources.wheel_indexes()
        self._mirrors = sources.debian_mirrors()
        self._snapshots = sources.debian_snapshots()

    def __call__(self, each: Input) -> Iterator[str]:
        if each.kind == "wheel":
            for url in self._indexes:
                folder = Path(url.removeprefix("file://"))
                if folder.is_dir():
                    yield str(folder / each.pin.file)
                else:
                    yield from index.find(self._session, [url], canonicalize_name(each.name),
                                          each.pin.file)
        else:
            yield from places(each, self._mirrors, self._snapshots)


def places(each: Input, mirrors: list[str], snapshots: list[str]) -> Iterator[str]:
    """Where a Debian package may be: mirrors and folders, then snapshots of the lock's date."""
    for mirror in mirrors:
        folder = Path(mirror.removeprefix("file://"))
        if folder.is_dir():
            yield str(folder / each.pool)
            yield str(folder / each.pin.file)
        else:
            yield f"{mirror}/{quote(each.pool)}"
    for snapshot in snapshots:
        # The archive holds a state per run; the lock's date is after the release's first.
        stamp = parsedate_to_datetime(each.lock_date).strftime("%Y%m%dT%H%M%SZ")
        yield f"{snapshot}/{stamp}/{quote(each.pool)}"


def _bring(session, each: Input, places_of, store: Store, cache: Path, told) -> None:
    file = download(session, each.pin, places_of(each), cache, told)
    if each.kind == "wheel":
        check_wheel(file, each.name, each.version)
    # The store takes a file under its own name, so it is given the legal one first.
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        named = Path(folder, store_name(each.pin.file))
        file.rename(named)
        added = store.add_file(named)
    if added != each.store_path:
        raise UserError("the store put an input elsewhere", where=each.pin.file,
                        expected=each.store_path, got=added)


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


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
