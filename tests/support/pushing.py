"""A client of a registry that waits for nothing, and blobs and images to send."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from apertus_image.oci.image import Image
from apertus_image.oci.layer import Layer, digest
from apertus_image.oci.paths import LayerPath
from apertus_image.registry.auth import scope_of
from apertus_image.registry.blobs import Blob, from_bytes
from apertus_image.registry.chunks import ChunkSize
from apertus_image.registry.client import Client
from apertus_image.registry.credentials import Credentials
from apertus_image.registry.state import State
from apertus_image.registry.upload import Outcome, upload
from apertus_image.tree import manifest
from fakes.registry import Registry
from support import trees

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


def layer(tree: Path) -> Layer:
    """A layer of one tree, described as its builder does."""
    path = LayerPath(str(tree), (f"^{tree}", ""), ())
    return Layer(*digest([path]), (path,), {"created_by": tree.name})


def tree(folder: Path, description: trees.Description) -> Path:
    """A tree with its manifest in it."""
    made = trees.make(folder, {**description, "usr/share/apertus/manifests/": ""})
    entries = [entry for entry in manifest.scan(made, "test")
               if not entry.path.startswith("/usr/share/apertus/manifests")]
    place = made / "usr/share/apertus/manifests"
    place.chmod(0o755)
    manifest.write(entries, place / folder.name)
    (place / folder.name).chmod(0o444)
    place.chmod(0o555)
    return made


def image(layers: Iterable[Layer]) -> Image:
    """An image of layers."""
    return Image.make({"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]}, layers, "amd64",
                      "2026-07-15T00:00:00Z")


def four_layers(folder: Path, size: int = 3 * MIB) -> Image:
    """An image of four layers of about `size` bytes, each another."""
    return image(layer(tree(folder / f"tree-{n}", {f"opt/{n}/data": bytes([n]) * size,
                                                   f"opt/{n}/note": f"{n}\n"}))
                 for n in range(4))
