"""Answering a registry's challenges: none, Basic, Bearer (RFC 9110, 11; distribution's token flow).

A challenge may come at any request (case 20): reads may be open and uploads not, and a token
may end in the middle of a layer.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests

from apertus_image.errors import UserError
from apertus_image.fetch.web import redacted
from apertus_image.registry.credentials import Credential, Credentials

__all__ = ["Authority", "Challenge", "challenges", "scope_of"]

# Distribution's docs, auth/token: a token that does not say lives for a minute.
DEFAULT_LIFE = 60
MARGIN = 5  # seconds before its end that a token is no longer begun a request with
PART = re.compile(r'([A-Za-z0-9!#$%&\'*+.^_`|~-]+)(?:\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,]+))?')
LOGIN = ("log in with docker or podman, or set APERTUS_REGISTRY_USER and "
         "APERTUS_REGISTRY_PASSWORD")


def scope_of(repository: str, actions: str = "pull,push") -> str:
    """What a token has to allow (distribution's docs, auth/scope)."""
    return f"repository:{repository}:{actions}"


@dataclass(frozen=True)
class Challenge:
    """One challenge of a WWW-Authenticate header: scheme in lower case, its parameters."""

    scheme: str
    parameters: dict[str, str]


def challenges(header: str) -> list[Challenge]:
    """The challenges of a header, in order."""
    found: list[Challenge] = []
    for name, value in PART.findall(header):
        if not value:
            found.append(Challenge(name.lower(), {}))
        elif found:
            if value.startswith('"'):
                value = re.sub(r"\\(.)", r"\1", value[1:-1])
            found[-1].parameters[name.lower()] = value
    return found


@dataclass
class _Grant:
    header: str
    ends: float
    scopes: frozenset[str] = frozenset()


class Authority:
    """The Authorization headers of one client, by origin and scope.

    Args:
        ask: sends (method, url, headers, form) and gives back (status, body); it adds no
            credentials of its own and follows no redirect.
        credentials: where to look for who the user is; looked up once for each host.
        plain_http: whether a token server may be asked without TLS.
    """

    def __init__(self, ask: Callable[[str, str, dict[str, str], dict[str, str] | None],
                                     tuple[int, bytes]],
                 credentials: Credentials, plain_http: Callable[[str], bool],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._credentials, self._plain_http = ask, credentials, plain_http
        self._clock = clock
        self._lock = threading.Lock()
        self._grants: dict[tuple[str, str], _Grant] = {}
        self._bearer: dict[tuple[str, str], Challenge] = {}
        self._known: dict[str, Credential | None] = {}
        self._secrets: set[str] = set()
        self.schemes: dict[str, str] = {}

    def header(self, origin: str, scope: str) -> str | None:
        """What to send with a request, None for nothing."""
        with self._lock:
            grant = self._grants.get((origin, scope))
            if grant is None:
                return None
            if grant.ends - MARGIN < self._clock() and (origin, scope) in self._bearer:
                self._renew(origin, scope, self._bearer[origin, scope])
            return self._grants[origin, scope].header

    def answer(self, origin: str, scope: str, header: str, sent: str | None) -> None:
        """Take a 401's challenges, so that `header` has an answer to them.

        Args:
            header: WWW-Authenticate.
            sent: the Authorization that was refused.

        Raises:
            UserError: there is no answer, or it has been refused already.
        """
        with self._lock:
            now = self._grants.get((origin, scope))
            if now and now.header != sent:
                return  # another thread has been here
            known = {each.scheme: each for each in challenges(header)}
            if bearer := known.get("bearer"):
                self.schemes[origin] = "bearer"
                self._refuse_more(origin, scope, bearer, now)
                self._renew(origin, scope, bearer)
            elif "basic" in known:
                self.schemes[origin] = "basic"
                self._basic(origin, scope, sent)
            else:
                raise UserError("the registry asks for a login of an unknown kind", where=origin,
                                expected="Basic or Bearer",
                                got=", ".join(known) or "401 without a challenge")

    def masked(self, text: str) -> str:
        """A text without any secret that this client knows."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "…")
        return text

    def _credential(self, origin: str, scope: str) -> Credential | None:
        host = urlsplit(origin).netloc
        if host not in self._known:
            repository = scope.split(":")[1] if scope.count(":") >= 2 else ""
            self._known[host] = self._credentials.find(host, repository)
            if found := self._known[host]:
                self._secrets |= found.secrets()
        return self._known[host]

    def _basic(self, origin: str, scope: str, sent: str | None) -> None:
        found = self._credential(origin, scope)
        if found is None or not found.password:
            raise UserError("the registry asks for a login", where=origin, next_step=LOGIN)
        if sent is not None:
            raise _refused(origin, found, "401 to the user name and password")
        self._grants[origin, scope] = _Grant(found.basic(), float("inf"))

    def _refuse_more(self, origin: str, scope: str, challenge: Challenge,
                     now: _Grant | None) -> None:
        """A token for just this, which does not allow it, is no better the next time."""
        wanted = set(challenge.parameters.get("scope", "").split())
        if now and challenge.parameters.get("error") == "insufficient_scope" and (
                wanted <= now.scopes):
            raise UserError("the login does not allow this", where=origin, got="insufficient_scope",
                            expected=" ".join(sorted(wanted)) or scope,
                            next_step="log in as a user who may, or ask the registry's keeper")

    def _renew(self, origin: str, scope: str, challenge: Challenge) -> None:
        found = self._credential(origin, scope)
        if found and found.token:
            header = f"Bearer {found.token}"
            before = self._grants.get((origin, scope))
            if before and before.header == header:
                raise _refused(origin, found, "401 to the token")
            self._grants[origin, scope] = _Grant(header, float("inf"))
            return
        self._bearer[origin, scope] = challenge
        # What the challenge wants, and what this client will want next; each scope by itself.
        scopes = list(dict.fromkeys(
            [*scope.split(), *challenge.parameters.get("scope", "").split()]))
        token, life = self._fetch(origin, scopes, challenge, found)
        self._secrets.add(token)
        self._grants[origin, scope] = _Grant(f"Bearer {token}", self._clock() + life,
                                             frozenset(scopes))

    def _fetch(self, origin: str, scopes: list[str], challenge: Challenge,
               found: Credential | None) -> tuple[str, float]:
        """A token and its life in seconds."""
        realm = challenge.parameters.get("realm", "")
        parts = urlsplit(realm)
        if parts.scheme != "https" and not (
                parts.scheme == "http" and self._plain_http(parts.netloc)):
            raise UserError("the registry sends its users to a token server without TLS",
                            where=origin, got=redacted(realm), expected="https://…",
                            next_step="--plain-http, if that is meant")
        fields = [("service", challenge.parameters["service"])] if (
            "service" in challenge.parameters) else []
        if found and found.identity:
            form = {**dict(fields), "grant_type": "refresh_token", "client_id": "apertus-image",
                    "refresh_token": found.identity, "scope": " ".join(scopes)}
            status, body = self._ask("POST", realm, {}, form)
        else:
            fields += [("scope", each) for each in scopes]
            url = requests.Request("GET", realm, params=fields).prepare().url
            headers = {"Authorization": found.basic()} if found else {}
            status, body = self._ask("GET", url, headers, None)
        if status in (400, 401, 403):
            raise _refused(origin, found, f"HTTP {status} from {redacted(realm)}")
        try:
            if status != 200:
                raise ValueError(status)
            data = json.loads(body)
            token = data.get("token") or data["access_token"]
            if not isinstance(token, str) or not token.isprintable() or " " in token:
                raise ValueError("no token")
            return token, float(data.get("expires_in") or DEFAULT_LIFE)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError("a token server gives no token", where=redacted(realm),
                            expected="HTTP 200 and JSON with token or access_token",
                            got=f"HTTP {status}", next_step="try again later") from None


def _refused(origin: str, found: Credential | None, got: str) -> UserError:
    if found is None:
        return UserError("the registry asks for a login", where=origin, got=got, next_step=LOGIN)
    who = f"{found.user or 'a token'}, from {found.source}"
    return UserError("the registry refuses the credentials", where=origin, got=f"{got} ({who})",
                     next_step=LOGIN)
