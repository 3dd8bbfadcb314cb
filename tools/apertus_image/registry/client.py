"""Requests to one registry: logged in, redirected, tried again, and told of clearly."""

from __future__ import annotations

import http.cookiejar
import ipaddress
import random
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

import requests

from apertus_image.errors import UserError
from apertus_image.fetch.web import TIMEOUT, new_session, reason, redacted
from apertus_image.registry.auth import Authority
from apertus_image.registry.credentials import Credentials
from apertus_image.registry.reply import Lost, Refused, Reply, joined

__all__ = ["ATTEMPTS", "LONGEST_WAIT", "RETRIED", "Client"]

ATTEMPTS = 6
LONGEST_WAIT = 300.0  # seconds: a registry that asks for more is given up (case 25)
RETRIED = frozenset({408, 429, 500, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS = 5
MOST_LOGINS = 8  # of one request: other threads may have had a token's last use
REPLY_LIMIT = 8 << 20  # twice what a registry has to take of a manifest (notes on pushing, 12)
ERROR_LIMIT = 64 << 10


class Client:
    """One registry.

    Args:
        host: with its port.
        plain_http: whether to speak HTTP without TLS; None: on loopback alone.
        verify: a PEM file of certificates to trust, or True for requests' own.
        say: told, a line each, of waits and of the registry's warnings.
        wait: how to pause, seconds.
        connections: kept open.
    """

    def __init__(
        self, host: str, *, plain_http: bool | None = None, verify: str | bool = True,
        credentials: Credentials | None = None, say: Callable[[str], None] = lambda _line: None,
        wait: Callable[[float], None] = time.sleep, connections: int = 8,
    ) -> None:
        self._plain = bool(plain_http)
        self.host, self._verify, self._say = host, verify, say
        self.wait = wait
        plain = _loopback(host) if plain_http is None else plain_http
        self.base = f"{'http' if plain else 'https'}://{host}/v2/"
        self._session = new_session(verify, connections)
        # trust_env stays for proxies, and netrc must not override a token: requests asks it
        # only where no auth is set.
        self._session.auth = _as_it_is
        # Redirects are this module's: requests would read one's body whole, and parse its target.
        self._session.get_redirect_target = lambda _response: None
        # Some registries take a client with a cookie for a browser, and want its CSRF token.
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        self._session.headers["User-Agent"] = "apertus-image"
        self.authority = Authority(self._ask_token_server, credentials or Credentials(host),
                                   self._may_be_plain)
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def url(self, repository: str, *parts: str) -> str:
        """A URL below /v2/REPOSITORY/."""
        return self.base + "/".join([repository, *parts])

    def ping(self, scope: str) -> str:
        """How the registry is logged in to: `none`, `basic` or `bearer`; logs in.

        Raises:
            UserError: it is no registry, cannot be reached, or refuses.
        """
        try:
            self.send("GET", self.base, scope)
        except Refused as error:
            if error.status == 404:
                raise UserError("not a registry", where=redacted(self.base), got="HTTP 404",
                                expected="an answer to GET /v2/") from error
            raise
        return self.authority.schemes.get(_origin(self.base), "none")

    def send(
        self, method: str, url: str, scope: str, *, headers: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"", expect: Collection[int] = (200,), retry: bool = True,
        timeout: tuple[float, float] = TIMEOUT, limit: int = REPLY_LIMIT,
    ) -> Reply:
        """Send a request, again if that can help, and read its answer.

        Args:
            scope: what a token has to allow, `repository:NAME:ACTIONS`, separated by blanks.
            expect: statuses to give back; any other raises.
            retry: whether asking again does no harm.
            limit: bytes of an answer.

        Raises:
            Refused: another status; after the last attempt where asking again was tried.
            Lost: no answer.
            UserError: no login, too long an answer, a redirect that is not followed.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                with self._answered(method, url, scope, headers or {}, body, timeout) as response:
                    reply = self._read(method, response, limit)
            except Lost as error:
                if not retry or not error.again or attempt == ATTEMPTS:
                    raise
                self.pause(attempt, None, f"{self.host}: {error.got}")
                continue
            if reply.status in expect:
                return reply
            refused = Refused(method, url, reply, expect, self.authority.masked, attempt)
            if not retry or reply.status not in RETRIED or attempt == ATTEMPTS:
                raise refused
            self.pause(attempt, refused, f"{self.host}: HTTP {reply.status}")

    def stream(self, url: str, scope: str, headers: Mapping[str, str] | None = None,
               timeout: tuple[float, float] = TIMEOUT) -> requests.Response:
        """One GET, of any status, whose body the caller reads and closes.

        Raises:
            requests.RequestException: no answer.
            UserError: no login, or a redirect that is not followed.
        """
        try:
            return self._answered("GET", url, scope, headers or {}, b"", timeout)
        except Lost as error:
            raise error.__cause__ from None

    def pause(self, attempt: int, refused: Refused | None, why: str) -> None:
        """Wait before the next attempt: as long as the registry asks, or longer each time.

        Raises:
            Refused: it asks for more than LONGEST_WAIT.
        """
        asked = refused.pause or 0.0 if refused else 0.0
        if refused and asked > LONGEST_WAIT:
            refused.next_step = (f"run it again in {asked:.0f} s; no more than "
                                 f"{LONGEST_WAIT:.0f} s are waited for")
            raise refused
        seconds = max(asked, 2.0 ** (attempt - 1)) * random.uniform(1.0, 1.25)
        self._say(f"{why}; going on in {seconds:.0f} s")
        self.wait(seconds)

    def _answered(self, method: str, url: str, scope: str, headers: Mapping[str, str],
                  body: bytes | memoryview, timeout: tuple[float, float]) -> requests.Response:
        """An answer to the question itself: challenges answered, redirects followed."""
        start, logins, redirects = url, 0, 0
        while True:
            origin = _origin(url)
            self._refuse_downgrade(start, url)
            sent = self.authority.header(origin, scope)
            response = self._once(method, url, {**headers, **(
                {"Authorization": sent} if sent else {})}, body, timeout)
            self._show_warnings(response)
            status, target = response.status_code, response.headers.get("Location")
            if status == 401 and logins < MOST_LOGINS and (
                    challenge := response.headers.get("WWW-Authenticate")):
                response.close()
                logins += 1
                self.authority.answer(origin, scope, challenge, sent)
            elif status in REDIRECTS and target and redirects < MOST_REDIRECTS:
                response.close()
                redirects += 1
                if status == 303 and method not in ("GET", "HEAD"):
                    raise UserError("a redirect would lose what is sent", got="HTTP 303",
                                    where=f"{method} {redacted(url)}")
                url = joined(url, target)  # the method stays, whatever the status (notes, table)
            else:
                return response

    def _once(self, method: str, url: str, headers: Mapping[str, str], body: bytes | memoryview,
              timeout: tuple[float, float]) -> requests.Response:
        try:
            return self._session.request(
                method, url, headers=headers, data=body, stream=True, allow_redirects=False,
                timeout=timeout, verify=self._verify, proxies=_proxies(url))
        except requests.RequestException as error:
            why, _, again = reason(error)
            raise Lost(method, url, why, again=again) from error

    def _read(self, method: str, response: requests.Response, limit: int) -> Reply:
        limit = limit if response.status_code < 400 else ERROR_LIMIT
        body = b""
        try:
            for piece in response.iter_content(1 << 16):
                body += piece
                if len(body) > limit and response.status_code < 400:
                    raise UserError("a registry's answer is too long",
                                    where=f"{method} {redacted(response.url)}",
                                    expected=f"at most {limit} bytes")
                if len(body) > limit:
                    break
        except requests.RequestException as error:
            why, _, again = reason(error)
            raise Lost(method, response.url, why, again=again) from error
        return Reply(response.status_code, response.headers, body, response.url)

    def _ask_token_server(self, method: str, url: str, headers: dict[str, str],
                          form: dict[str, str] | None) -> tuple[int, bytes]:
        body = b""
        if form is not None:
            prepared = requests.Request(method, url, data=form).prepare()
            body, headers = prepared.body.encode(), {**headers, **prepared.headers}
        for attempt in range(1, ATTEMPTS + 1):
            refused = None
            try:
                with self._once(method, url, headers, body, TIMEOUT) as response:
                    reply = self._read(method, response, 1 << 20)
                if reply.status not in RETRIED or attempt == ATTEMPTS:
                    return reply.status, reply.body
                refused = Refused(method, url, reply, (200,), lambda _text: "…", attempt)
                why = f"HTTP {reply.status}"
            except Lost as error:
                if not error.again or attempt == ATTEMPTS:
                    raise
                why = str(error.got)
            self.pause(attempt, refused, f"{urlsplit(url).netloc}: {why}")
        raise AssertionError  # the last attempt returns or raises

    def _may_be_plain(self, host: str) -> bool:
        """Whether to go there without TLS: where that was asked for, or on this machine."""
        return self._plain or _loopback(host)

    def _refuse_downgrade(self, start: str, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise UserError("a registry sends its users to something else than the web",
                            where=redacted(start), got=redacted(url))
        if urlsplit(url).scheme == "http" and not self._may_be_plain(urlsplit(url).netloc):
            raise UserError(
                "a registry sends its users from https to http", where=redacted(start),
                got=redacted(url), next_step="its proxy has to send X-Forwarded-Proto; "
                "or --plain-http, if that is meant")

    def _show_warnings(self, response: requests.Response) -> None:
        """Warning 299, each text once (distribution-spec, "Warnings"); never acted on."""
        for text in re.findall(r'299 - "((?:[^"\\]|\\.)*)"', response.headers.get("Warning", "")):
            shown = "".join(c for c in re.sub(r"\\(.)", r"\1", text) if c.isprintable())[:500]
            with self._lock:
                new = shown not in self._warned
                self._warned.add(shown)
            if new:
                self._say(f"{self.host} warns: {self.authority.masked(shown)}")


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _loopback(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _proxies(url: str) -> dict[str, str | None]:
    """No proxy for this machine itself; the environment's for the rest."""
    return dict.fromkeys(("http", "https", "all")) if _loopback(urlsplit(url).netloc) else {}
