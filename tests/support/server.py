"""A web server on loopback whose faults are scripted."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator


class Faulty:
    """What a server was asked, and what it does: path -> list of replies, the last repeated.

    A reply is bytes, a status, or a function of (handler, body or None).
    """

    def __init__(self) -> None:
        self.replies: dict[str, list] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        self.url = ""


def cut(body: bytes, at: int) -> Callable:
    """Announce all of `body`, send `at` bytes, and cut the connection."""

    def reply(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:at])
        handler.close_connection = True

    return reply


def ranged(body: bytes, count: int | None = None) -> Callable:
    """Serve `body`, or the rest of it where a range is asked for.

    Args:
        count: cut the connection after so many bytes.
    """

    def reply(handler):
        wanted = handler.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        handler.send_response(206 if wanted else 200)
        handler.send_header("Content-Length", str(len(body) - start))
        if wanted:
            handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        handler.end_headers()
        handler.wfile.write(body[start:] if count is None else body[start : start + count])
        handler.close_connection = count is not None

    return reply


def endless(piece: bytes) -> Callable:
    """Send `piece` again and again, without saying how often."""

    def reply(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        with contextlib.suppress(ConnectionError):
            while True:
                handler.wfile.write(piece)

    return reply


def partial(body: bytes, **headers: str) -> Callable:
    """Answer any request with status 206, this body and these headers."""

    def reply(handler):
        handler.send_response(206)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def status(code: int, **headers: str) -> Callable:
    """Answer with a status and no body."""

    def reply(handler):
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return reply


def body(data: bytes, kind: str = "application/octet-stream") -> Callable:
    """Answer with a body, ranges ignored."""

    def reply(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return reply


@contextlib.contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Faulty]:
    """Run a server for the length of the block, under TLS if given how."""
    script = Faulty()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            script.asked.append((self.command, self.path, self.headers.get("Range")))
            replies = script.replies.get(self.path, [status(404)])
            reply = replies.pop(0) if len(replies) > 1 else replies[0]
            reply(self)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    script.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    server.handle_error = lambda *_: None  # clients that hang up are part of the script
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
