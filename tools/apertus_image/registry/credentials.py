"""Who the user is at a registry: where docker, podman and the environment say it.

Sources: containers-auth.json(5), docker's config.json, and docker's protocol for credential
helpers: `docker-credential-NAME get`, the server on stdin, JSON on stdout.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError

__all__ = ["Credential", "Credentials"]

HELPER_SECONDS = 60
NOT_FOUND = "credentials not found"  # what every helper says for a server it does not know
IDENTITY = "<token>"  # the user name under which a helper gives an identity token


@dataclass(frozen=True)
class Credential:
    """What to show a registry. The secrets are in no repr.

    Attributes:
        user: empty where there is only a token.
        identity: an OAuth2 refresh token, to be changed for a token of the registry's.
        token: a token of the registry's own, sent as it is.
        source: where it was found, for messages.
    """

    user: str
    password: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    source: str = ""

    def basic(self) -> str:
        """The value of an Authorization header (RFC 7617)."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def secrets(self) -> set[str]:
        """What no message may hold."""
        pair = self.basic().removeprefix("Basic ") if self.password else ""
        return {text for text in (self.password, self.identity, self.token, pair) if text}


class Credentials:
    """Credentials by host.

    Args:
        host: the registry that the environment's variables are meant for: no other gets them.
        environment: of the process.
    """

    def __init__(self, host: str, environment: Mapping[str, str] | None = None) -> None:
        self._host = host
        self._environment = os.environ if environment is None else environment

    def find(self, host: str, repository: str = "") -> Credential | None:
        """The credential for a registry, None to go without.

        In this order: APERTUS_REGISTRY_TOKEN, or APERTUS_REGISTRY_USER with …_PASSWORD; then
        podman's auth.json; then docker's config.json.

        Raises:
            UserError: a file cannot be read, or a credential helper fails.
        """
        if host == self._host and (found := self._from_environment()):
            return found
        for file in self._files():
            if found := self._from_file(file, host, repository):
                return found
        return None

    def _from_environment(self) -> Credential | None:
        token, user, password = (self._environment.get(f"APERTUS_REGISTRY_{name}", "")
                                 for name in ("TOKEN", "USER", "PASSWORD"))
        if token:
            return Credential("", token=token, source="APERTUS_REGISTRY_TOKEN")
        if user or password:
            if not (user and password):
                raise UserError("half a credential is set in the environment",
                                expected="APERTUS_REGISTRY_USER and APERTUS_REGISTRY_PASSWORD",
                                got="only one of them")
            return Credential(user, password, source="APERTUS_REGISTRY_USER")
        return None

    def _files(self) -> Iterator[Path]:
        get = self._environment.get
        home = Path(get("HOME") or Path.home())
        if named := get("REGISTRY_AUTH_FILE"):
            yield Path(named)
        if runtime := get("XDG_RUNTIME_DIR"):
            yield Path(runtime, "containers/auth.json")
        yield Path(get("XDG_CONFIG_HOME") or home / ".config", "containers/auth.json")
        yield Path(get("DOCKER_CONFIG") or home / ".docker", "config.json")

    def _from_file(self, file: Path, host: str, repository: str) -> Credential | None:
        try:
            data = json.loads(file.read_bytes())
            auths = {_plain(key): value for key, value in (data.get("auths") or {}).items()}
            helpers = {_plain(key): value for key, value in (data.get("credHelpers") or {}).items()}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no JSON object of that kind"
            raise UserError("a file of credentials cannot be read", where=file, got=why,
                            next_step="mend it, or log in again with docker or podman") from None
        # podman's keys may name a part of a registry; the most particular one counts.
        for key in _prefixes(host, repository):
            helper = (helpers.get(host) or data.get("credsStore")) if key == host else None
            found = self._from_helper(helper, host) if helper else None
            if found := found or _from_entry(auths.get(key), str(file)):
                return found
        return None

    def _from_helper(self, name: str, host: str) -> Credential | None:
        program = f"docker-credential-{name}"
        try:
            ran = subprocess.run([program, "get"], input=host, capture_output=True, text=True,
                                 timeout=HELPER_SECONDS, env=dict(self._environment))
        except (OSError, subprocess.TimeoutExpired) as error:
            why = "no answer" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
            raise UserError("a credential helper cannot be run", where=program, got=why,
                            next_step="install it, or set APERTUS_REGISTRY_USER and "
                            "APERTUS_REGISTRY_PASSWORD") from None
        if ran.returncode:
            if NOT_FOUND in (ran.stdout + ran.stderr).lower():
                return None
            # Its output may hold a secret, so none of it is shown.
            raise UserError("a credential helper failed", where=f"{program} get, for {host}",
                            got=f"exit code {ran.returncode}",
                            next_step=f"run it by hand: echo {host} | {program} get")
        try:
            said = json.loads(ran.stdout)
            user, secret = said["Username"], said["Secret"]
        except (ValueError, KeyError, TypeError):
            raise UserError("a credential helper gave no credential", where=program,
                            expected="JSON with Username and Secret") from None
        if user == IDENTITY:
            return Credential("", identity=secret, source=program)
        return Credential(user, secret, source=program) if secret else None


def _plain(key: str) -> str:
    """docker's old keys are URLs: https://HOST/v1/."""
    if "://" not in key:
        return key.rstrip("/")
    return key.partition("://")[2].partition("/")[0]


def _prefixes(host: str, repository: str) -> Iterator[str]:
    parts = repository.split("/") if repository else []
    for length in range(len(parts), -1, -1):
        yield "/".join([host, *parts[:length]])


def _from_entry(entry: Any, source: str) -> Credential | None:
    if not isinstance(entry, dict):
        return None
    if token := entry.get("registrytoken"):
        return Credential("", token=token, source=source)
    if identity := entry.get("identitytoken"):
        return Credential("", identity=identity, source=source)
    user, password = entry.get("username", ""), entry.get("password", "")
    if pair := entry.get("auth"):
        try:
            user, _, password = base64.b64decode(pair).decode().partition(":")
        except ValueError:
            raise UserError("a credential is malformed", where=source,
                            expected="auth: base64 of USER:PASSWORD",
                            next_step="log in again with docker or podman") from None
    password = password.rstrip("\0")
    return Credential(user, password, source=source) if user and password else None
