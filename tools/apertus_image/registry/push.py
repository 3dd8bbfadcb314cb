"""An image into a registry: what is missing, checked, and the manifest last."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from apertus_image.errors import UserError
from apertus_image.oci.layout import INDEX_TYPES, MANIFEST_TYPES
from apertus_image.registry.auth import scope_of
from apertus_image.registry.blobs import Blob
from apertus_image.registry.chunks import ChunkSize
from apertus_image.registry.client import Client
from apertus_image.registry.manifest import FORMATS, Manifest
from apertus_image.registry.reference import Reference
from apertus_image.registry.session import arrived
from apertus_image.registry.source import Source
from apertus_image.registry.state import State
from apertus_image.registry.upload import Outcome, upload

__all__ = ["WORKERS", "Pushed", "push", "put_manifest", "send_blobs", "tagged"]

WORKERS = 4
ACCEPT = ", ".join((*MANIFEST_TYPES, *INDEX_TYPES))


class Stopped(Exception):
    """Another blob has failed, or the user has had enough."""


@dataclass(frozen=True)
class Pushed:
    """What a push did.

    Attributes:
        reference: by digest.
        form: `oci` or `v2s2`.
        manifests: digest by form, also of the form that was not pushed; one that the image
            cannot have is missing.
        moved: whether the manifest, or its tag, was not there before.
        outcomes: by blob.
    """

    reference: Reference
    tag: str
    form: str
    manifests: dict[str, str]
    image_id: str
    moved: bool
    outcomes: dict[Blob, Outcome]

    @property
    def sent(self) -> int:
        """Bytes of blobs that were sent."""
        return sum(outcome.sent for outcome in self.outcomes.values())

    def json(self) -> dict[str, Any]:
        """For programs; a release's record takes its digests from here."""
        blobs = [{"digest": blob.digest, "size": blob.size, **vars(outcome)}
                 for blob, outcome in self.outcomes.items()]
        return {"reference": str(self.reference), "tag": self.tag, "format": self.form,
                "digest": self.reference.digest, "manifests": self.manifests,
                "image": self.image_id, "manifest": "pushed" if self.moved else "exists",
                "bytes_sent": self.sent, "bytes_again": sum(b["again"] for b in blobs),
                "blobs": blobs}


def push(
    source: Source, target: Reference, client: Client, *, form: str = "auto",
    state: State | None = None, chunk: ChunkSize | None = None, workers: int = WORKERS,
    mount: str = "", say: Callable[[str], None] = lambda _line: None,
    progress: Callable[[int], None] = lambda _count: None,
) -> Pushed:
    """Push an image.

    Args:
        target: with a tag, or without one to push by digest alone; a digest in it has to be
            the image's.
        form: `oci`, `v2s2`, or `auto`: v2s2 where Enroot could not import the other.
        state: where uploads are noted, so that a killed one is gone on with.
        mount: a repository of the same registry that may have the blobs.
        progress: called with the number of bytes that are at the registry.

    Raises:
        UserError: the image, the registry or the network is at fault. The tag has not moved.
    """
    scope = scope_of(target.repository)
    login = client.ping(scope)
    if form == "auto":
        form = _chosen(source, login, say)
    manifest = source.manifest(form)
    if target.digest and target.digest != manifest.digest:
        raise UserError("the image has another digest than the one to push to", where=str(target),
                        expected=target.digest, got=f"{manifest.digest} ({form})")
    outcomes = send_blobs(source.blobs(), target.repository, client, state=state, chunk=chunk,
                          workers=workers, mount=mount, say=say, progress=progress)
    moved = put_manifest(client, target.repository, target.tag, manifest)
    return Pushed(target.at(manifest.digest), target.tag, form, _digests(source),
                  source.config.digest, moved, outcomes)


def _chosen(source: Source, login: str, say: Callable[[str], None]) -> str:
    """v2s2 where there is no login, or Basic: Enroot's first question names no OCI type there,
    and it takes the 404 for an answer (notes on Enroot, 0.1)."""
    if login == "bearer" or any(kind not in FORMATS["v2s2"].layers for _, kind in source.layers):
        return "oci"
    without = "without a login" if login == "none" else "with a Basic login"
    say(f"Docker v2s2 manifest, since Enroot cannot import OCI's from a registry {without} "
        "(--format oci for the other)")
    return "v2s2"


def _digests(source: Source) -> dict[str, str]:
    return {form: source.manifest(form).digest for form, types in FORMATS.items()
            if all(kind in types.layers for _, kind in source.layers)}


def send_blobs(
    blobs: list[Blob], repository: str, client: Client, *, state: State | None = None,
    chunk: ChunkSize | None = None, workers: int = WORKERS, mount: str = "",
    say: Callable[[str], None] = lambda _line: None,
    progress: Callable[[int], None] = lambda _count: None,
) -> dict[Blob, Outcome]:
    """Bring blobs into a repository, several at a time; each is there in its full length after.

    Raises:
        UserError: the first fault; the other uploads stop at their next chunk, and are noted.
    """
    scope, state, chunk = scope_of(repository), state or State(None), chunk or ChunkSize()
    over = threading.Event()

    def stopped() -> None:
        if over.is_set():
            raise Stopped

    def bring(blob: Blob) -> Outcome:
        stopped()
        if arrived(client, repository, blob.digest, scope) in (blob.size, -1):
            state.forget(client.base, repository, blob.digest)
            progress(blob.size)
            return Outcome("exists")
        with state.note(client.base, repository, blob.digest) as note:
            outcome = upload(client, repository, blob, chunk=chunk, note=note, scope=scope,
                             mount=mount, say=say, progress=progress, stopped=stopped)
        _check_length(client, repository, blob, scope)
        return outcome

    with ThreadPoolExecutor(workers) as pool:
        jobs = {blob: pool.submit(_until_failure, bring, blob, over) for blob in blobs}
        try:
            done = {blob: job.result() for blob, job in jobs.items()}
        except BaseException:
            over.set()
            pool.shutdown(cancel_futures=True)
            failed = (job.exception() for job in jobs.values() if not job.cancelled())
            if first := next((e for e in failed if e and not isinstance(e, Stopped)), None):
                raise first from None
            raise
    return done


def _until_failure(bring: Callable[[Blob], Outcome], blob: Blob, over: threading.Event) -> Outcome:
    try:
        return bring(blob)
    except BaseException:
        over.set()
        raise


def _check_length(client: Client, repository: str, blob: Blob, scope: str) -> None:
    """A registry may answer 201 and keep a damaged file that it had (notes on pushing, its table).

    Raises:
        UserError: the length that it names is not the blob's.
    """
    found = arrived(client, repository, blob.digest, scope)
    if found in (blob.size, -1):
        return
    raise UserError(
        "the registry took a blob and has another", where=f"{client.host}/{repository}",
        expected=f"{blob.digest}, {blob.size} bytes",
        got="no such blob" if found is None else f"{found} bytes under that digest",
        next_step="its file is damaged: have it removed (tools/registry fsck does, in a cache of "
        "tools/registry serve) and push again; no tag was moved")


def put_manifest(client: Client, repository: str, tag: str, manifest: Manifest) -> bool:
    """Put a manifest under its digest, and under a tag if there is one; False if it was there.

    Raises:
        UserError: the registry refuses it, or has other bytes afterwards.
    """
    scope = scope_of(repository)
    name = tag or manifest.digest
    if _fetched(client, repository, name, scope) == manifest.data:
        return False
    reply = client.send("PUT", client.url(repository, "manifests", name), scope,
                        headers={"Content-Type": manifest.media_type}, body=manifest.data,
                        expect=(200, 201, 202))
    said = reply.headers.get("Docker-Content-Digest", manifest.digest)
    back = _fetched(client, repository, manifest.digest, scope)
    if said != manifest.digest or back != manifest.data:
        raise UserError(
            "the registry changed the manifest", where=f"{client.host}/{repository}:{name}",
            expected=f"{manifest.digest}, {len(manifest.data)} bytes",
            got=f"{said}, " + ("nothing" if back is None else f"{len(back)} bytes"),
            next_step="do not use this tag; ask the registry's keeper what rewrites manifests")
    return True


def tagged(client: Client, repository: str, tag: str) -> str:
    """The digest that a tag names, of an image or of an index; empty if there is no such tag.

    Raises:
        UserError: the registry refuses, or cannot be reached.
    """
    data = _fetched(client, repository, tag, scope_of(repository))
    return "" if data is None else f"sha256:{hashlib.sha256(data).hexdigest()}"


def _fetched(client: Client, repository: str, name: str, scope: str) -> bytes | None:
    reply = client.send("GET", client.url(repository, "manifests", name), scope,
                        headers={"Accept": ACCEPT}, expect=(200, 404))
    return reply.body if reply.status == 200 else None
