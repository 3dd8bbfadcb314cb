"""One upload session at a registry: its requests (distribution-spec, "Pushing blobs")."""

from __future__ import annotations

import contextlib

from apertus_image.errors import UserError
from apertus_image.fetch.web import redacted
from apertus_image.registry.chunks import LARGEST, after_range, with_digest
from apertus_image.registry.client import Client
from apertus_image.registry.reply import Refused, Reply

__all__ = ["Session", "arrived"]

OCTETS = {"Content-Type": "application/octet-stream"}
CHUNK_TIMEOUT = (15, 300)  # seconds: to connect, and for the registry to store a chunk
CLOSE_TIMEOUT = (15, 900)  # some registries read the whole blob again before they answer


def arrived(client: Client, repository: str, digest: str, scope: str) -> int | None:
    """The length of a blob at the registry, None if it has none; -1 if it does not say."""
    reply = client.send("HEAD", client.url(repository, "blobs", digest), scope, expect=(200, 404))
    if reply.status == 404:
        return None
    length = reply.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else -1


class Session:
    """A session for one blob.

    Attributes:
        location: the newest, which every next request goes to.
        minimum: bytes that all chunks but the last have at least.
    """

    def __init__(self, client: Client, repository: str, digest: str, scope: str) -> None:
        self.client, self._repository, self._digest = client, repository, digest
        self._scope = scope
        self.location, self.minimum = "", 0

    def open(self, mount: str = "") -> bool:
        """Open a session; whether the blob was mounted instead.

        Args:
            mount: a repository of the same registry that may have the blob.

        Raises:
            UserError: the registry opens none, or wants chunks beyond any memory (case 19).
        """
        url = self.client.url(self._repository, "blobs", "uploads") + "/"
        reply = self._mount(url, mount) if mount else None
        if reply is None:
            reply = self.client.send("POST", url, self._scope, expect=(202,))
        if reply.status == 201:
            return True
        if not reply.location:
            raise UserError("the registry opens an upload without saying where",
                            where=redacted(reply.url), expected="a Location")
        self.location = reply.location
        least = reply.headers.get("OCI-Chunk-Min-Length", "")
        self.minimum = int(least) if least.isdigit() else 0
        if self.minimum > LARGEST:
            raise UserError("the registry wants chunks larger than can be held in memory",
                            where=self.client.host, expected=f"at most {LARGEST} bytes",
                            got=f"OCI-Chunk-Min-Length: {least}")
        return False

    def _mount(self, url: str, source: str) -> Reply | None:
        """201: mounted; 202: not, but a session is open; None: not even that (case 23)."""
        scope = f"{self._scope} repository:{source}:pull"
        try:
            return self.client.send("POST", f"{url}?mount={self._digest}&from={source}", scope,
                                    expect=(201, 202))
        except UserError:
            return None  # a plain upload says what is wrong, if anything is

    def patch(self, piece: memoryview, offset: int) -> Reply:
        """Send a chunk.

        Raises:
            Refused: any answer but 202.
            Lost: no answer.
        """
        reply = self.client.send(
            "PATCH", self.location, self._scope, body=piece, expect=(202,), retry=False,
            timeout=CHUNK_TIMEOUT,
            headers={**OCTETS, "Content-Range": f"{offset}-{offset + len(piece) - 1}"})
        self.take(reply)
        return reply

    def close(self, piece: memoryview) -> None:
        """Close it with the digest, and with the whole of a small blob.

        Raises:
            Refused: the registry does not take it.
            Lost: no answer.
        """
        self.client.send("PUT", with_digest(self.location, self._digest), self._scope,
                         headers=OCTETS, body=piece, expect=(200, 201, 204), retry=False,
                         timeout=CLOSE_TIMEOUT)

    def held(self, offset: int) -> int | None:
        """How many bytes the registry says it holds, None if it knows nothing of the session.

        Args:
            offset: what is known to have arrived.
        """
        try:
            reply = self.client.send("GET", self.location, self._scope, expect=(204,))
        except Refused:
            return None
        self.take(reply)
        return after_range(reply.headers.get("Range"), offset)

    def stored(self) -> int | None:
        """The blob's length at the registry, as `arrived` has it."""
        return arrived(self.client, self._repository, self._digest, self._scope)

    def take(self, reply: Reply) -> None:
        """The newest Location is the one to use (case 17)."""
        self.location = reply.location or self.location

    def cancel(self) -> None:
        """Give the session up; a registry that does not know how forgets it in time."""
        with contextlib.suppress(UserError):
            self.client.send("DELETE", self.location, self._scope, expect=(202, 204), retry=False)
