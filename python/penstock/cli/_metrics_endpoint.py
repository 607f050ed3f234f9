"""Where the metrics are read: a port or a Unix socket of its own, served by a thread."""

from __future__ import annotations

import http.server
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._socket_file import SocketFile, remove_abandoned

_MOST_AT_ONCE = 32
"""Clients that are answered at once, each by a thread; others are turned away."""


class _Handler(http.server.BaseHTTPRequestHandler):
    page: Callable[[], str]
    timeout = 10

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self.send_error(404)
            return
        body = self.page().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def address_string(self) -> str:
        return str(self.client_address)

    def log_message(self, format: str, *args: Any) -> None:
        pass  # it is asked every few seconds, forever


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: Any, handler: type[_Handler]) -> None:
        super().__init__(address, handler)
        self._room = threading.BoundedSemaphore(_MOST_AT_ONCE)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._room.acquire(blocking=False)  # given back at the end of its thread

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # else the client has gone
            super().handle_error(request, client_address)


def check_address(text: str) -> tuple[int, Any]:
    """Return the family and the address that a text means: HOST:PORT, PORT, or unix:PATH.

    Raises:
        ValueError: If it means none.
    """
    if text.startswith("unix:"):
        return socket.AF_UNIX, text.removeprefix("unix:")
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535 or (colon and not host):
        raise ValueError(f"{text} is not HOST:PORT, PORT or unix:PATH")
    host = host.removeprefix("[").removesuffix("]")
    return socket.AF_INET6 if ":" in host else socket.AF_INET, (host or "127.0.0.1", int(port))


class MetricsEndpoint:
    """Serves the metrics until it is closed.

    Args:
        text: the address, see :func:`check_address`.
        page: makes the page, in a thread of each client.

    Raises:
        CommandError: If the address cannot be listened on (exit code CONFIG).
    """

    def __init__(self, text: str, page: Callable[[], str]) -> None:
        family, address = check_address(text)
        self._path = address if family == socket.AF_UNIX else None
        handler = type("_PageHandler", (_Handler,), {"page": staticmethod(page)})
        kind = type("_FamilyServer", (_Server,), {"address_family": family})
        try:
            if self._path is not None:
                remove_abandoned(self._path)
            self._server = kind(address, handler)
            self._file = SocketFile(self._path) if self._path is not None else None
        except OSError as error:
            raise CommandError(
                f"cannot serve metrics on {text}: {error.strerror or one_line(error)}; choose "
                "another address with --metrics",
                ExitCode.CONFIG,
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="penstock-metrics", daemon=True
        )
        self._thread.start()

    @property
    def place(self) -> str:
        """Where it is read."""
        if self._path is not None:
            return f"unix:{self._path}"
        host, port = self._server.server_address[:2]
        return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        if self._file is not None:
            self._file.remove()
        self._server.server_close()
        self._thread.join()
