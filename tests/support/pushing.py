"""A fake registry, a client of it that waits for nothing, and blobs to send."""

from __future__ import annotations

from dataclasses import dataclass, field

from apertus_image.registry.auth import scope_of
from apertus_image.registry.blobs import Blob, from_bytes
from apertus_image.registry.chunks import ChunkSize
from apertus_image.registry.client import Client
from apertus_image.registry.credentials import Credentials
from apertus_image.registry.state import State
from apertus_image.registry.upload import Outcome, upload
from fakes.registry import Registry

MIB = 1 << 20
REPOSITORY = "team/image"


@dataclass
class Bench:
    """A registry and one client, with what the client said and how long it would have waited."""

    registry: Registry
    environment: dict[str, str]
    said: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def client(self, **options) -> Client:
        return Client(self.registry.host, say=self.said.append, wait=self.waits.append,
                      credentials=Credentials(self.registry.host, self.environment), **options)

    def login(self, login) -> None:
        self.registry.login = login
        self.environment |= {"APERTUS_REGISTRY_USER": login.user,
                             "APERTUS_REGISTRY_PASSWORD": login.password}

    def upload(self, blob: Blob, chunk: int = MIB, state: State | None = None, mount: str = "",
               client: Client | None = None) -> Outcome:
        client = client or self.client()
        self.chunk = ChunkSize(chunk)
        with (state or State(None)).note(client.base, REPOSITORY, blob.digest) as note:
            return upload(client, REPOSITORY, blob, chunk=self.chunk, note=note, mount=mount,
                          scope=scope_of(REPOSITORY), say=self.said.append)


def blob_of(size: int) -> Blob:
    """A blob whose every MiB is another."""
    return from_bytes(b"".join(bytes([n % 251]) * min(MIB, size - n * MIB)
                               for n in range(-(-size // MIB))))
