"""Requests and responses of the opening handshake."""

from __future__ import annotations

import http
from dataclasses import dataclass, field

from penstock.websocket.datastructures import Headers

__all__ = ["Request", "Response"]


@dataclass
class Request:
    """A client's handshake request.

    Attributes:
        path: The request target: path and query.
        headers: The header fields.
    """

    path: str
    headers: Headers = field(default_factory=Headers)

    def serialize(self) -> bytes:
        """Return the request as it is sent.

        Raises:
            ValueError: If the path or a field cannot be sent.
        """
        if not self.path or any(not "!" <= c <= "~" for c in self.path):
            raise ValueError(f"{self.path!r} cannot be sent; quote it with urllib.parse.quote()")
        return f"GET {self.path} HTTP/1.1\r\n".encode() + self.headers.serialize()


@dataclass
class Response:
    """A server's response to a handshake request.

    Attributes:
        status_code: 101 if the handshake has succeeded.
        reason_phrase: The text after the status.
        headers: The header fields.
        body: The body, if there is one.
    """

    status_code: int
    reason_phrase: str
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""

    def serialize(self, *, body: bool = True) -> bytes:
        """Return the response as it is sent.

        Args:
            body: Whether the body follows. The answer to a HEAD request has none (RFC 9110, 9.3.2).

        Raises:
            ValueError: If the status, the reason phrase or a field cannot be sent.
        """
        status, reason = int(self.status_code), self.reason_phrase
        if not 100 <= status <= 999:
            raise ValueError(f"a status must have three digits, not {status}")
        if any((ord(c) < 0x20 and c != "\t") or c == "\x7f" or ord(c) > 0xFF for c in reason):
            raise ValueError(
                f"the reason phrase {reason!r} has a control character, or one that is not in"
                " ISO 8859-1; use plain text"
            )
        first = f"HTTP/1.1 {status} {reason}\r\n".encode("latin-1")
        return first + self.headers.serialize() + (self.body if body else b"")


def plain_response(status: int, text: str) -> Response:
    """Return a response with a text as its body, after which the connection is closed."""
    body = text.encode()
    headers = Headers(
        {
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
    )
    if status == 426:
        headers["Upgrade"] = "websocket"
        headers["Sec-WebSocket-Version"] = "13"
    return Response(status, http.HTTPStatus(status).phrase, headers, body)
