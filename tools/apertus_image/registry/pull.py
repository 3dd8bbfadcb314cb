"""An image from a registry into an OCI layout: by digest, verified, gone on with when cut."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from apertus_image.errors import UserError
from apertus_image.fetch.download import Pin, Unavailable, download
from apertus_image.oci.layout import INDEX_TYPES, MANIFEST_TYPES, Descriptor, Layout
from apertus_image.registry import manifest
from apertus_image.registry.auth import scope_of
from apertus_image.registry.client import Client
from apertus_image.registry.manifest import Manifest
from apertus_image.registry.reference import Reference

__all__ = ["Pulled", "fetch_manifest", "pull"]

WORKERS = 4
ACCEPT = ", ".join((*MANIFEST_TYPES, *INDEX_TYPES))


@dataclass(frozen=True)
class Pulled:
    """What a pull did.

    Attributes:
        reference: by digest.
        layout: the folder.
        size: bytes of the image's blobs.
        present: how many of them were there, those of an interrupted pull included.
    """

    reference: Reference
    layout: Path
    size: int
    present: int

    def json(self) -> dict[str, Any]:
        return {"reference": str(self.reference), "digest": self.reference.digest,
                "layout": str(self.layout), "bytes": self.size,
                "bytes_fetched": self.size - self.present}


def fetch_manifest(client: Client, reference: Reference) -> Manifest:
    """An image's manifest, its bytes as they are.

    Raises:
        UserError: there is none, it is an index of several images, or has another digest.
    """
    name = reference.digest or reference.tag or "latest"
    reply = client.send("GET", client.url(reference.repository, "manifests", name),
                        scope_of(reference.repository, "pull"), headers={"Accept": ACCEPT},
                        expect=(200, 404))
    if reply.status == 404:
        raise UserError("the registry has no such image", where=str(reference),
                        next_step="check its name and digest, or push it")
    kind = reply.headers.get("Content-Type", "").partition(";")[0].strip()
    if kind in INDEX_TYPES:
        listed = [f"{(each.get('platform') or {}).get('architecture', '?')}: {each.get('digest')}"
                  for each in (reply.json() or {}).get("manifests") or []]
        raise UserError("the name is of several images", where=str(reference),
                        got=", ".join(listed), next_step="name one of them by its digest")
    found = manifest.parse(reply.body, kind, str(reference))
    wanted = reference.digest or reply.headers.get("Docker-Content-Digest", found.digest)
    if found.digest != wanted:
        raise UserError("the registry gives another manifest than was asked for",
                        where=str(reference), expected=wanted, got=found.digest,
                        next_step="ask the registry's keeper")
    return found


def pull(
    reference: Reference, client: Client, folder: Path, *, workers: int = WORKERS,
    progress: Callable[[str, int], Callable[[int], None]] = lambda _label, _total: lambda _n: None,
) -> Pulled:
    """Fetch an image into a layout, new or there already; it is listed once it is whole.

    Args:
        reference: by digest, or by a tag, whose digest counts from then on.
        progress: called once with a label and the bytes in all; what it gives is called with
            the number of bytes that are there.

    Raises:
        UserError: there is no such image, it cannot be had whole, or there is no room for it.
            What arrived is kept for the next run.
    """
    client.ping(scope_of(reference.repository, "pull"))
    found = fetch_manifest(client, reference)
    descriptors = {each["digest"]: Descriptor.parse(each, str(reference))
                   for each in found.blobs()}
    total = sum(each.size for each in descriptors.values())
    with _alone(folder):
        layout = Layout.create(folder)
        present = sum(map(_held, (layout.path(digest) for digest in descriptors)))
        _check_room(folder, total - present)
        add = progress(f"pulling from {client.host}", total)

        def bring(descriptor: Descriptor) -> None:
            _bring(client, reference.repository, descriptor, layout, add)

        with ThreadPoolExecutor(workers) as pool:
            jobs = [pool.submit(bring, each) for each in
                    sorted(descriptors.values(), key=lambda each: -each.size)]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        layout.add([found.data])
        layout.tag(Descriptor(found.media_type, found.digest, len(found.data), {}), reference.tag)
    return Pulled(reference.at(found.digest), folder, total, present)


class _Session:
    """What a download asks of requests: a GET, here logged in and redirected by the client."""

    def __init__(self, client: Client, scope: str) -> None:
        self._client, self._scope = client, scope

    def get(self, url: str, headers: Mapping[str, str], *, stream: bool,
            timeout: tuple[float, float]) -> requests.Response:
        return self._client.stream(url, self._scope, headers, timeout)


def _bring(client: Client, repository: str, descriptor: Descriptor, layout: Layout,
           progress: Callable[[int], None]) -> None:
    name = descriptor.digest.removeprefix("sha256:")
    url = client.url(repository, "blobs", descriptor.digest)
    try:
        download(_Session(client, scope_of(repository, "pull")), Pin(name, name, descriptor.size),
                 [url], layout.path(descriptor.digest).parent, progress, client.wait)
    except Unavailable as error:
        raise UserError("a blob of the image cannot be had", where=url,
                        expected=f"{descriptor.digest}, {descriptor.size} bytes", got=error.got,
                        next_step="run it again: what arrived is kept; where its content is "
                        "wrong, push the image again") from error


def _held(blob: Path) -> int:
    """What is there of a blob, whole or not."""
    for file in (blob, blob.with_name(f"{blob.name}.part")):
        with contextlib.suppress(OSError):
            return file.stat().st_size
    return 0


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError("there is no room for the image", where=folder,
                        expected=f"{needed} bytes free", got=f"{free} bytes",
                        next_step="make room, or name another folder")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One pull at a time writes to a folder; the lock goes with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UserError("the layout's folder cannot be made", where=folder,
                        got=error.strerror) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UserError("another pull writes to this folder", where=folder,
                        next_step="wait for it, or name another folder") from error
    finally:
        os.close(handle)
