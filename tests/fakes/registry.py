"""A registry in this process: right unless its script says otherwise (distribution-spec 1.1)."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import itertools
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from fakes.login import Login, LoginHandler, error

UPLOAD = re.compile(r"/v2/(.+)/blobs/uploads/(.*)")
BLOB = re.compile(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})")
MANIFEST = re.compile(r"/v2/(.+)/manifests/(.+)")
REFERRERS = re.compile(r"/v2/(.+)/referrers/(sha256:[0-9a-f]{64})")


@dataclass
class Asked:
    """One request, as it came."""

    method: str
    url: str
    headers: dict[str, str]
    size: int

    @property
    def path(self) -> str:
        return urlsplit(self.url).path


class Registry:
    """What the registry holds, what it was asked, and what it does wrong.

    Attributes:
        faults: (method, pattern of the path, reply, how often); a reply is a function of
            (handler, body) that returns False to let the registry answer.
        cap: most bytes of a body, and the answer to more: (status, content type, text).
        early: whether too large a body is refused before it is read, as proxies do.
        minimum: OCI-Chunk-Min-Length.
        location: of a session: (id, repository, step) -> Location.
        range: of a session that holds so many bytes: what Range says, None for nothing.
        subjects: whether it knows referrers.
    """

    def __init__(self) -> None:
        self.url = ""
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.steps: dict[str, int] = {}
        self.asked: list[Asked] = []
        self.faults: list[list] = []
        self.cap: tuple[int, tuple[int, str, str]] | None = None
        self.early = False
        self.minimum = 0
        self.mounts = False
        self.subjects = False
        self.login: Login | None = None
        self.strict = True
        self.location: Callable[[str, str, int], str] = (
            lambda name, repository, step: f"/v2/{repository}/blobs/uploads/{name}?_state={step}")
        self.range: Callable[[int], str | None] = lambda held: f"0-{max(held - 1, 0)}"
        self.headers: dict[str, str] = {}
        self.lock = threading.RLock()
        self.numbers = itertools.count(1)

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def fault(self, method: str, pattern: str, reply: Callable, times: float = 1) -> None:
        self.faults.append([method, re.compile(pattern), reply, times])

    def sent(self, method: str) -> list[Asked]:
        return [each for each in self.asked if each.method == method]

    def body_bytes(self) -> int:
        """Bytes of blobs that clients sent."""
        return sum(each.size for each in self.asked if "/blobs/" in each.url)


def answer(status: int, text: str = "", kind: str = "application/json", **headers: str) -> Callable:
    """A scripted reply."""

    def reply(handler: Handler, _body: bytes) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.reply(status, text.encode(), {"Content-Type": kind, **names})

    return reply


def hang_up(handler: Handler, _body: bytes) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True


def then_hang_up(handler: Handler, body: bytes) -> None:
    """Do what was asked, and lose the answer."""
    handler.answered = lambda *_: None
    handler.serve(body)
    handler.close_connection = True


class Handler(LoginHandler):
    protocol_version = "HTTP/1.1"
    registry: Registry

    def do_any(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        it, path = self.registry, urlsplit(self.path).path
        if it.early and it.cap and size > it.cap[0]:
            self.close_connection = True
            return self.serve(bytes(size))
        body = self.rfile.read(size)
        with it.lock:
            it.asked.append(Asked(self.command, self.path, dict(self.headers), size))
            fault = next((f for f in it.faults if f[0] == self.command and f[3] > 0
                          and f[1].search(self.path)), None)
            if fault:
                fault[3] -= 1
                if fault[2](self, body) is not False:
                    return
            if path == "/token":
                self.token(body)
            elif self.allowed(path):
                self.serve(body)

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = do_DELETE = do_any

    def serve(self, body: bytes) -> None:
        """Answer as the specification has it."""
        it, parts = self.registry, urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if it.cap and len(body) > it.cap[0]:
            status, kind, text = it.cap[1]
            return self.reply(status, text.encode(), {"Content-Type": kind})
        if parts.path == "/v2/":
            return self.reply(200, b"{}")
        if found := UPLOAD.search(parts.path):
            return self.upload(found[1], found[2], query, body)
        if found := BLOB.fullmatch(parts.path):
            return self.blob(it.blobs.get(found[2]))
        if found := MANIFEST.fullmatch(parts.path):
            return self.manifest(found[2], body)
        if (found := REFERRERS.fullmatch(parts.path)) and it.subjects:
            return self.referrers(found[2])
        return self.reply(404, b"404 page not found\n", {"Content-Type": "text/plain"})

    def blob(self, data: bytes | None) -> None:
        if data is None:
            return self.reply(404, error("BLOB_UNKNOWN").encode())
        if wanted := self.headers.get("Range"):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            return self.reply(206, data[start:], {
                "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"})
        return self.reply(200, data)

    def upload(self, repository: str, name: str, query: dict[str, str], body: bytes) -> None:
        it = self.registry
        if self.command == "POST":
            if it.mounts and query.get("mount") in it.blobs:
                return self.reply(201, b"", {"Location": f"/v2/{repository}/blobs/"})
            name = str(next(it.numbers))
            it.uploads[name], it.steps[name] = bytearray(), 0
            more = {"OCI-Chunk-Min-Length": str(it.minimum)} if it.minimum else {}
            return self.session(202, repository, name, more)
        stale = it.strict and query.get("_state", str(it.steps.get(name))) != str(
            it.steps.get(name))
        if name not in it.uploads or stale:
            return self.reply(404, error("BLOB_UPLOAD_INVALID").encode())
        held = it.uploads[name]
        if self.command == "GET":
            return self.session(204, repository, name)
        if self.command == "DELETE":
            del it.uploads[name]
            return self.reply(204)
        due = self.headers.get("Content-Range")
        if body and due and int(due.split("-")[0]) != len(held):
            return self.session(416, repository, name)
        if self.command == "PATCH" and len(body) < it.minimum:
            return self.reply(416, error("SIZE_INVALID").encode())
        held += body
        if self.command == "PATCH":
            it.steps[name] += 1
            return self.session(202, repository, name)
        digest = f"sha256:{hashlib.sha256(held).hexdigest()}"
        del it.uploads[name]
        if query["digest"] != digest:
            return self.reply(400, error("DIGEST_INVALID").encode())
        it.blobs[digest] = bytes(held)
        return self.reply(201, b"", {"Docker-Content-Digest": digest})

    def session(self, status: int, repository: str, name: str,
                more: dict[str, str] | None = None) -> None:
        it = self.registry
        headers = {"Location": it.location(name, repository, it.steps[name]), **(more or {})}
        if (held := it.range(len(it.uploads[name]))) is not None:
            headers["Range"] = held
        self.reply(status, b"", headers)

    def manifest(self, name: str, body: bytes) -> None:
        it = self.registry
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if self.command == "PUT":
            fields = json.loads(body)
            needed = [fields["config"], *fields["layers"]] if "config" in fields else []
            for each in needed:
                if each["digest"] not in it.blobs:
                    return self.reply(400, error("MANIFEST_BLOB_UNKNOWN").encode())
            for key in {name, digest}:
                it.manifests[key] = (self.headers["Content-Type"], body)
            more = {"Docker-Content-Digest": digest}
            if it.subjects and "subject" in fields:
                more["OCI-Subject"] = fields["subject"]["digest"]
            return self.reply(201, b"", more)
        kind, data = it.manifests.get(name, ("", b""))
        # As distribution 2.8: an OCI manifest is there only for who asks for it.
        if not data or (kind.startswith("application/vnd.oci") and
                        kind not in self.headers.get("Accept", "")):
            return self.reply(404, error("MANIFEST_UNKNOWN").encode())
        return self.reply(200, data, {"Content-Type": kind})

    def referrers(self, subject: str) -> None:
        found = []
        for digest, (kind, data) in self.registry.manifests.items():
            fields = json.loads(data)
            if fields.get("subject", {}).get("digest") == subject and digest.startswith("sha256:"):
                found.append({"mediaType": kind, "digest": digest, "size": len(data),
                              "artifactType": fields.get("artifactType")})
        body = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                "manifests": found}
        self.reply(200, json.dumps(body).encode(), {
            "Content-Type": "application/vnd.oci.image.index.v1+json"})

    def answered(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **self.registry.headers,
                            **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)

    def reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.answered(status, body, headers or {})

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Registry]:
    """Run a registry for the length of the block."""
    registry = Registry()
    handler = type("Bound", (Handler,), {"registry": registry})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # clients that hang up are part of the script
    registry.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
