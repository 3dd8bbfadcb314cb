"""Finding a file on a simple index (PEP 503 as HTML, PEP 691 as JSON)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import requests

from apertus_image.errors import UserError
from apertus_image.fetch.web import TIMEOUT, Down, Failed, insist, redacted

__all__ = ["IndexFile", "find", "page", "project_files"]

JSON = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"


@dataclass(frozen=True)
class IndexFile:
    """One file that an index offers.

    Attributes:
        name: decoded file name; a `%2B` in the URL is a `+` here, once (case 29).
        url: absolute, fragment taken off.
        sha256: hex, None where the index has none.
        size: bytes, None where the index has none.
        metadata_url: the wheel's METADATA (PEP 658), None where there is none.
        yanked: PEP 592.
    """

    name: str
    url: str
    sha256: str | None = None
    size: int | None = None
    metadata_url: str | None = None
    yanked: bool = False


def project_files(
    session: requests.Session,
    indexes: Iterable[str],
    project: str,
    wait: Callable[[float], None] = time.sleep,
) -> list[IndexFile]:
    """The files of a project from the first index that has it.

    Raises:
        UserError: no index has it, each with its answer.
    """
    failures = []
    for index in indexes:
        try:
            return page(session, f"{index}/{project}/", wait)
        except Failed as failure:
            failures.append(f"{redacted(index)}: {failure}")
    raise UserError(
        "no index has a project",
        where=project, got="\n            ".join(failures) or "no index configured",
        next_step="check pip's configuration, or set APERTUS_PYPI_INDEX",
    )


def page(
    session: requests.Session,
    url: str,
    wait: Callable[[float], None] = time.sleep,
    down: Down | None = None,
) -> list[IndexFile]:
    """The files that one page names: a project's on an index, or a page of links.

    Raises:
        Failed: it cannot be had or read.
    """

    def ask() -> requests.Response:
        reply = session.get(url, headers={"Accept": ACCEPT}, timeout=TIMEOUT)
        reply.raise_for_status()
        return reply

    reply = insist(ask, url, wait=wait, down=down)
    try:
        return list(_parse(reply))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failed("not an index page", gone=True) from error


def find(
    session: requests.Session,
    pages: Iterable[str],
    name: str,
    sha256: str,
    wait: Callable[[float], None] = time.sleep,
    down: Down | None = None,
) -> Iterator[str | Failed]:
    """Where pages say that one file is, page by page; a Failed for each that does not.

    Args:
        pages: URLs of a project on indexes, or of pages of links.
        name: the file's.
        sha256: a file of that name with another hash is not it; it need not be fetched.
    """
    for url in pages:
        try:
            files = [file for file in page(session, url, wait, down) if file.name == name]
        except Failed as failure:
            failure.place = url
            yield failure
            continue
        if not files:
            yield Failed("does not name the file", url, gone=True)
        for file in files:
            if file.sha256 in (None, sha256):
                yield file.url
            else:
                yield Failed(f"wrong content: sha256 {file.sha256}", file.url, gone=True)


def _parse(reply: requests.Response) -> Iterator[IndexFile]:
    if reply.headers.get("Content-Type", "").startswith(JSON):
        for item in reply.json()["files"]:
            url = urljoin(reply.url, item["url"])
            metadata = item.get("core-metadata", item.get("dist-info-metadata"))
            yield IndexFile(
                item["filename"], url, item.get("hashes", {}).get("sha256"), item.get("size"),
                f"{url}.metadata" if metadata else None, bool(item.get("yanked")),
            )
        return
    anchors = _Anchors()
    anchors.feed(reply.text)
    for attributes in anchors.found:
        url, fragment = urldefrag(urljoin(reply.url, attributes.get("href") or ""))
        digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
        metadata = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata"))
        yield IndexFile(
            unquote(urlsplit(url).path.rsplit("/", 1)[-1]), url, digest, None,
            f"{url}.metadata" if metadata else None, "data-yanked" in attributes,
        )


class _Anchors(HTMLParser):
    """Collects the attributes of every link on a PEP 503 page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))
