"""Names of images in registries: HOST[:PORT]/REPOSITORY[:TAG][@DIGEST]."""

from __future__ import annotations

import re
from dataclasses import dataclass

from apertus_image.errors import UserError

__all__ = ["Reference"]

# distribution-spec, "Pulling manifests", and distribution/reference for hosts.
REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
                        r"(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::\d{1,5})?")
FORM = "docker://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]"
LONGEST_REPOSITORY = 255


@dataclass(frozen=True)
class Reference:
    """Where an image is, or is to be.

    Attributes:
        host: with its port, if one is named.
        repository: lower case, without the host.
        tag: empty if none is named.
        digest: `sha256:…`, empty if none is named.
    """

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """From text; `docker://` in front is accepted, a registry's name is needed.

        Raises:
            UserError: it is malformed, or names no registry.
        """
        rest, _, digest = text.removeprefix("docker://").partition("@")
        host, slash, path = rest.partition("/")
        repository, _, tag = path.partition(":")
        if not slash or not HOST.fullmatch(host) or not (
                set(".:[") & set(host) or host == "localhost"):
            why = "it names no registry"
        elif not REPOSITORY.fullmatch(repository) or len(repository) > LONGEST_REPOSITORY:
            why = f"the repository's name {repository!r} is not allowed" + (
                ": it has to be in lower case" if repository != repository.lower() else "")
        elif ":" in path and not TAG.fullmatch(tag):
            why = f"the tag {tag!r} is not allowed"
        elif "@" in text and not DIGEST.fullmatch(digest):
            why = f"the digest {digest!r} is not SHA-256"
        else:
            return cls(host, repository, tag, digest)
        raise UserError("not the name of an image in a registry", where=text, expected=FORM,
                        got=why)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.repository}{tag}{digest}"

    def at(self, digest: str) -> Reference:
        """The same repository by a digest."""
        return Reference(self.host, self.repository, digest=digest)
