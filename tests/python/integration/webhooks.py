"""A receiver of web hooks for the tests: an HTTP server that checks signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Receiver", "receiver"]


class Receiver:
    """What came, and what is answered next.

    Attributes:
        url: where it is.
        got: identity and body of each request, in order.
        targets: path and query of each.
        answers: statuses for the next requests; 204 after them.
        changed: notified when a request has come.
    """

    def __init__(self, secret: bytes) -> None:
        self.url = ""
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.targets: list[str] = []
        self.answers: list[int] = []
        self.changed = threading.Condition()
        self._secret = secret

    def wait_for(self, many: int) -> list[str]:
        """The identities of the first ``many`` requests, once they have come."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= many, 30), self.got
            return [identity for identity, _ in self.got[:many]]

    def wait_for_kinds(self, many: int) -> None:
        """Return when requests of so many identities have come."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(dict(self.got)) >= many, 30), self.got

    def take(self, headers: Any, body: bytes) -> int:
        """Check a request, and keep it."""
        identity, stamp = headers["webhook-id"], headers["webhook-timestamp"]
        signed = f"{identity}.{stamp}.".encode() + body
        digest = hmac.digest(self._secret, signed, hashlib.sha256)
        assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
        with self.changed:
            self.got.append((identity, json.loads(body)))
            self.changed.notify_all()
            return self.answers.pop(0) if self.answers else 204


@contextmanager
def receiver(secret: bytes, port: int = 0) -> Iterator[Receiver]:
    """A receiver on loopback."""
    found = Receiver(secret)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.targets.append(self.path)
            try:
                status = found.take(self.headers, body)
            except Exception:
                status = 400
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        found.url = f"http://127.0.0.1:{server.server_address[1]}/hook?x=1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
