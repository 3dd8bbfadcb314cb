"""Asking web servers: what is tried again, how long is waited, what is told of a failure."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlsplit

import requests

__all__ = ["ATTEMPTS", "TIMEOUT", "Down", "Failed", "insist", "new_session", "reason", "redacted",
           "retry_after"]

ATTEMPTS = 4
LONGEST_WAIT = 60.0
TIMEOUT = (15, 60)  # seconds: to connect, and between two pieces of an answer
RETRIED = frozenset({408, 429, 500, 502, 503, 504})
GONE = frozenset({404, 410})

Result = TypeVar("Result")


class Failed(Exception):
    """A place that does not give the right file; the next one may.

    Args:
        why: half a sentence.
        place: URL or path, if it is not known from elsewhere.
        gone: whether the place answered that it has no such file.
    """

    def __init__(self, why: str, place: str = "", *, gone: bool = False) -> None:
        super().__init__(why)
        self.place, self.gone = place, gone


class Down:
    """Hosts that cannot be reached, so that hundreds of files do not each wait for one.

    Args:
        seconds: how long a host is left alone after it could not be reached.
    """

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._hosts: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()

    def note(self, url: str, why: str) -> None:
        """Remember that a URL's host could not be reached."""
        with self._lock:
            self._hosts[urlsplit(url).netloc] = (self._clock() + self._seconds, why)

    def why(self, url: str) -> str | None:
        """What was found when the URL's host was last tried, None if it is worth trying."""
        with self._lock:
            until, why = self._hosts.get(urlsplit(url).netloc, (0.0, ""))
            return why if self._clock() < until else None


def new_session(verify: str | bool, connections: int = 8) -> requests.Session:
    """A session that keeps `connections` open to a host, and trusts `verify` (a PEM file)."""
    session = requests.Session()
    session.verify = verify
    for scheme in ("http://", "https://"):
        session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=connections))
    return session


def insist(
    ask: Callable[[], Result],
    url: str,
    *,
    wait: Callable[[float], None] = time.sleep,
    down: Down | None = None,
    advanced: Callable[[], bool] = lambda: False,
) -> Result:
    """Ask until there is an answer, for as long as asking again can help.

    Args:
        ask: one attempt; raises requests' exceptions, HTTPError for a status.
        wait: how to pause before the next attempt, seconds.
        down: hosts not to be asked.
        advanced: whether the last attempt got anywhere, so that it does not count.

    Raises:
        Failed: what the last attempt met.
    """
    attempt = 0
    while True:
        if down and (known := down.why(url)):
            raise Failed(known)
        attempt += 1
        pause = None
        answered = True
        try:
            return ask()
        except requests.HTTPError as error:
            status = error.response.status_code
            why = f"HTTP {status}"
            if status not in RETRIED:
                raise Failed(why, gone=status in GONE) from error
            pause = retry_after(error.response)
        except (requests.ConnectionError, requests.Timeout,
                requests.exceptions.ChunkedEncodingError) as error:
            why, answered, again = reason(error)
            if not again:
                raise Failed(why) from error
        except requests.RequestException as error:
            raise Failed(type(error).__name__) from error
        if advanced():
            attempt = 0
        if attempt == ATTEMPTS or (pause or 0) > LONGEST_WAIT:
            if down and not answered:
                down.note(url, why)
            raise Failed(f"{why}, after {attempt or 1} attempts")
        wait(max(pause or 0, random.uniform(0.5, 1.5) * 2 ** max(attempt - 1, 0)))


def reason(error: requests.RequestException) -> tuple[str, bool, bool]:
    """(why, whether the host was reached, whether asking again may help)."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted (APERTUS_CA_BUNDLE names whom to trust)", True, False
    if tunnel := re.search(r"Tunnel connection failed: ([^'\")]+)", text):
        return f"the proxy refuses: {tunnel[1]}", True, False
    for sign, why in (
        ("ProxyError", "the proxy cannot be reached"),
        ("NameResolutionError", "no such host"), ("getaddrinfo", "no such host"),
        ("Connection refused", "connection refused"), ("unreachable", "network unreachable"),
        ("No route to host", "no route to host"), ("ConnectTimeout", "no answer"),
    ):
        if sign in text or sign == type(error).__name__:
            return why, False, True
    if isinstance(error, requests.Timeout) or "Read timed out" in text:
        return f"nothing came for {TIMEOUT[1]} s", True, True
    # An error of this project's own says what it is; the rest have a type.
    short = text if text.startswith("cut ") else "connection lost"
    return short, True, True


def retry_after(reply: requests.Response) -> float | None:
    """Retry-After in seconds (RFC 9110, 10.2.3), None where absent or unreadable."""
    value = reply.headers.get("Retry-After", "")
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def redacted(place: str) -> str:
    """A URL without user name, password and the values of its query, which may sign it."""
    parts = urlsplit(place)
    if not parts.scheme:
        return place
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="…" if parts.query else "").geturl()
