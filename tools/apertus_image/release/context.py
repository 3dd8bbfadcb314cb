"""What all steps of one release work on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.build.maker import Maker
from apertus_image.build.run import programs
from apertus_image.errors import UserError
from apertus_image.fetch.sources import ca_bundle
from apertus_image.oci.image import Image
from apertus_image.registry.client import Client
from apertus_image.registry.reference import Reference
from apertus_image.registry.server.borrowed import borrowed
from apertus_image.registry.source import Source, from_image
from apertus_image.release.gate import GateResult
from apertus_image.release.profile import Profile
from apertus_image.release.source import ApplicationSource
from apertus_image.release.state import Folder
from apertus_image.store.store import Store

__all__ = ["Context", "Results"]

Results = dict[str, dict[str, Any]]
Telling = Callable[[str, int], Callable[[int], None]]


@dataclass
class Context:
    """What all steps of one release work on.

    Attributes:
        project: root of the clone.
        gate: what the gate has let pass.
        application: the user's own code, in the store already.
        bring: prefetches one image's inputs; the store path that holds them together.
        progress: given a label and a total of bytes, gives what is told the bytes done.
        say: told a line for the user.
        key: an SSH key that signs the record, or None.
    """

    project: Path
    profile: Profile
    store: Store
    maker: Maker
    folder: Folder
    gate: GateResult
    application: ApplicationSource | None
    bring: Callable[[str], str]
    progress: Telling
    say: Callable[[str], None]
    key: Path | None = None

    def programs(self) -> Path:
        """The folder of the pinned squashfs tools."""
        return programs(self.project, self.store, self.maker)

    def image(self, results: Results) -> Image:
        """The image that was built.

        Raises:
            UserError: its description is not the one that was built.
        """
        file = self.store.physical(results["build"]["json"])
        image = Image.load(file)
        if image.image_id != results["build"]["image"]:
            raise UserError("the image's description is not the one that was built", where=file,
                            expected=results["build"]["image"], got=image.image_id,
                            next_step="nix-store --verify --check-contents --repair")
        return image

    def source(self, results: Results) -> Source:
        """The image as a push takes it."""
        return from_image(self.image(results), self.store.physical)

    @contextlib.contextmanager
    def registry(self) -> Iterator[tuple[Client, Reference]]:
        """A client of the profile's registry, served for the block if it is a folder."""
        settings = self.profile.registry
        with contextlib.ExitStack() as stack:
            host = settings.get("host") or stack.enter_context(
                borrowed(settings["serve"], cache=settings.get("cache", False)))
            client = Client(host, plain_http=settings.get("plain_http"),
                            verify=str(settings.get("ca") or ca_bundle() or "") or True,
                            say=self.say)
            yield client, Reference(host, settings["repository"])
