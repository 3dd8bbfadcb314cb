"""A registry's answers: read, resolved, and told of where they are not those needed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from apertus_image.errors import UserError
from apertus_image.fetch.web import redacted, retry_after

__all__ = ["Lost", "Refused", "Reply", "joined"]


class Refused(UserError):
    """A registry's answer that is not the one needed.

    Attributes:
        status: HTTP's.
        codes: the spec's error codes, if the body held any.
        headers: of the answer.
        pause: seconds that it asks to wait, None if it does not say.
    """

    def __init__(self, method: str, url: str, reply: Reply, expected: Collection[int],
                 mask: Callable[[str], str], attempts: int = 1) -> None:
        self.status, self.headers, self.url = reply.status, reply.headers, url
        self.codes, said = _errors(reply)
        self.pause = reply.pause
        again = f", after {attempts} attempts" if attempts > 1 else ""
        got = f"HTTP {reply.status}{': ' if said else ''}{mask(said)}{again}"
        super().__init__("the registry refuses", where=f"{method} {redacted(url)}", got=got,
                         expected=" or ".join(f"HTTP {each}" for each in sorted(expected)),
                         next_step=_advice(reply))


class Lost(UserError):
    """No answer came: the registry cannot be reached, or the connection was cut."""

    def __init__(self, method: str, url: str, why: str, *, again: bool) -> None:
        super().__init__("the registry does not answer", where=f"{method} {redacted(url)}", got=why,
                         next_step="check the network and run it again: what arrived is kept")
        self.again = again


@dataclass(frozen=True)
class Reply:
    """An answer, read whole.

    Attributes:
        url: what was asked in the end, after redirects; Location is relative to it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str

    @property
    def pause(self) -> float | None:
        """Retry-After in seconds."""
        return retry_after(self)  # reads headers alone

    @property
    def location(self) -> str | None:
        """The Location, resolved against the request, its parameters kept (case 17)."""
        found = self.headers.get("Location")
        return joined(self.url, found) if found else None

    def json(self) -> dict[str, Any] | None:
        """The body as a JSON object, None if it is none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


def joined(url: str, target: str) -> str:
    """A redirect's or a Location's target, resolved against the request.

    Raises:
        UserError: it is no URL.
    """
    try:
        return urljoin(url, target)
    except ValueError as error:
        raise UserError("a registry names a malformed address", where=redacted(url),
                        got=error) from error


def _errors(reply: Reply) -> tuple[frozenset[str], str]:
    """(codes, what to show) of an error's body: the spec's JSON, or anything at all."""
    listed = (reply.json() or {}).get("errors")
    if isinstance(listed, list) and listed and all(isinstance(each, dict) for each in listed):
        codes = frozenset(str(each.get("code", "")) for each in listed)
        told = "; ".join(" ".join(filter(None, [
            str(each.get("code", "")), str(each.get("message") or ""),
            json.dumps(each["detail"]) if each.get("detail") else ""])) for each in listed)
        return codes, _clean(told)
    text = reply.body.decode("utf-8", "replace")
    if "<" in text:  # HTML: its title, or its first words
        title = re.search(r"(?is)<title[^>]*>(.*?)</title>", text)
        text = title[1] if title else re.sub(r"(?s)<[^>]*>", " ", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return frozenset(), _clean(lines[0] if lines else "")


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:300]


def _advice(reply: Reply) -> str | None:
    if reply.status in (401, 403):
        return "log in as a user who may do this, or ask the registry's keeper"
    if reply.status == 404:
        return "check the name; some registries want a repository made beforehand"
    if reply.status == 413:
        return "ask for a higher limit of the proxy in front of the registry, or a lower --chunk"
    return None
