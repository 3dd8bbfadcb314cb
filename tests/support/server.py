"""A web server on loopback whose faults are scripted."""

from __future__ import annotations

import contextlib
import http.server
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


def ranged(body: bytes) -> Callable:
    """Serve `body`, or the rest of it where a range is asked for."""

    def reply(handler):
        wanted = handler.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        handler.send_response(206 if wanted else 200)
        handler.send_header("Content-Length", str(len(body) - start))
        handler.end_headers()
        handler.wfile.write(body[start:])

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
def serve() -> Iterator[Faulty]:
    """Run a server for the length of the block."""
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
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
