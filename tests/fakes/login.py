"""How the fake registry is logged in to: Basic, or a token server beside it."""

from __future__ import annotations

import base64
import http.server
import itertools
import json
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

NUMBERS = itertools.count(1)


def error(code: str) -> str:
    return json.dumps({"errors": [{"code": code, "message": "as scripted"}]})


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@dataclass
class Login:
    """A token server beside the registry, or Basic.

    Attributes:
        uses: how many requests a token is good for.
        open: methods that need no login.
        denied: methods that no token allows.
        tokens: token -> uses left.
    """

    kind: str = "bearer"
    user: str = "anna"
    password: str = "s3cret-password"
    anonymous: bool = False
    uses: float = float("inf")
    open: tuple[str, ...] = ()
    tokens: dict[str, float] = field(default_factory=dict)
    scopes: list[list[str]] = field(default_factory=list)
    denied: tuple[str, ...] = ()
    realm: str = "/token"


class LoginHandler(http.server.BaseHTTPRequestHandler):
    """What a request has to show; the registry that is logged in to is `registry`."""

    def allowed(self, path: str) -> bool:
        """Whether the request is logged in; challenges it otherwise."""
        login = self.registry.login
        if login is None or self.command in login.open:
            return True
        shown = self.headers.get("Authorization", "")
        if login.kind == "basic":
            if shown == basic(login.user, login.password):
                return True
            challenge = 'Basic realm="here"'
        else:
            token = shown.removeprefix("Bearer ")
            if login.tokens.get(token, 0) > 0 and self.command not in login.denied:
                login.tokens[token] -= 1
                return True
            realm = login.realm if "://" in login.realm else self.registry.url + login.realm
            challenge = f'Bearer realm="{realm}",service="fake"'
            if found := re.match(r"/v2/(.+)/(?:blobs|manifests)/", path):
                challenge += f',scope="repository:{found[1]}:pull,push"'
            if self.command in login.denied:
                challenge += ',error="insufficient_scope"'
        self.reply(401, error("UNAUTHORIZED").encode(), {"WWW-Authenticate": challenge})
        return False

    def token(self, body: bytes) -> None:
        login = self.registry.login
        query = parse_qs(urlsplit(self.path).query) | parse_qs(body.decode())
        login.scopes.append(query.get("scope", []))
        right = self.headers.get("Authorization") == basic(login.user, login.password)
        if not (right or login.anonymous or query.get("refresh_token") == [login.password]):
            return self.reply(401, error("UNAUTHORIZED").encode())
        token = f"secret-token-{next(NUMBERS)}"
        login.tokens[token] = login.uses
        return self.reply(200, json.dumps({"token": token, "expires_in": 300}).encode())
