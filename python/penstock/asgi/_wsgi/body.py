"""wsgi.input: the request's body, which is received as the application reads it."""

from __future__ import annotations

import io
from typing import Any

from penstock.asgi._wsgi.exchange import Exchange


class _Body(io.RawIOBase):
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._part = memoryview(b"")
        self._more = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._part and self._more:
            part, self._more = self._exchange.take_part()
            self._part = memoryview(part)
        size = min(len(buffer), len(self._part))
        buffer[:size] = self._part[:size]
        self._part = self._part[size:]
        return size


def open_body(exchange: Exchange) -> io.BufferedReader | io.BytesIO:
    """Return a stream that ends where the body ends.

    Reading raises ClientDisconnected, an OSError, if the client goes before.
    """
    for name, value in exchange.scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            return io.BufferedReader(_Body(exchange))
    # HTTP/2 has bodies without either.
    if exchange.scope["http_version"].startswith("1"):
        return io.BytesIO()
    return io.BufferedReader(_Body(exchange))
