"""Responses compressed as their client accepts it: `penstock serve --compress`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from penstock.asgi._codings import accepted_codings, gains_by_coding
from penstock.asgi._types import Application, Message, Receive, Scope, Send

_LEAST = 500
"""Bytes of a body: a shorter one fits in a packet as it is."""
_IN_THREAD = 65536
"""Bytes of a part from which a thread compresses it."""
_ALONE = (204, 205, 206, 304)


class _Compressor(Protocol):
    def part(self, data: bytes) -> bytes:
        """Compress a part, so that the client can read all of it."""

    def last(self, data: bytes) -> bytes:
        """Compress the last part."""


class _Gzip:
    def __init__(self) -> None:
        self._object = zlib.compressobj(5, zlib.DEFLATED, 31)

    def part(self, data: bytes) -> bytes:
        return self._object.compress(data) + self._object.flush(zlib.Z_SYNC_FLUSH)

    def last(self, data: bytes) -> bytes:
        return self._object.compress(data) + self._object.flush()


class _Brotli:
    def __init__(self, module: Any) -> None:
        self._object = module.Compressor(quality=4)

    def part(self, data: bytes) -> bytes:
        return bytes(self._object.process(data) + self._object.flush())

    def last(self, data: bytes) -> bytes:
        return bytes(self._object.process(data) + self._object.finish())


class _Zstandard:
    def __init__(self, module: Any) -> None:
        self._object = module.ZstdCompressor(level=3).compressobj()
        self._flush_part = module.COMPRESSOBJ_FLUSH_BLOCK

    def part(self, data: bytes) -> bytes:
        return bytes(self._object.compress(data) + self._object.flush(self._flush_part))

    def last(self, data: bytes) -> bytes:
        return bytes(self._object.compress(data) + self._object.flush())


def _available() -> dict[str, Callable[[], _Compressor]]:
    """Return the codings that can be made here, the better ones first."""
    found: dict[str, Callable[[], _Compressor]] = {}
    with contextlib.suppress(ImportError):
        brotli: Any = importlib.import_module("brotli")
        found["br"] = lambda: _Brotli(brotli)
    with contextlib.suppress(ImportError):
        zstandard: Any = importlib.import_module("zstandard")
        found["zstd"] = lambda: _Zstandard(zstandard)
    found["gzip"] = _Gzip
    return found


class Compressed:
    """An application that calls another one and compresses its responses.

    A response is compressed if its type gains by it, and if it has at least 500 bytes or a length
    that is not known. It is not if it has a Content-Encoding, is partial (206), or has no-transform
    in Cache-Control. Each part of a streamed body is flushed, so the client can read it at once. A
    strong ETag becomes weak, and Vary names Accept-Encoding. Files that the kernel sends stay
    uncompressed.

    The codings are br and zstd, if the packages brotli and zstandard are installed, and gzip.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self._makers = _available()
        self.codings: tuple[str, ...] = tuple(self._makers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        accepted = accepted_codings(scope["headers"], self.codings)
        response = _Response(send, scope["method"] == "HEAD")
        if accepted:
            response.coding = accepted[0]
            response.maker = self._makers[accepted[0]]
        await self._app(scope, receive, response.send)
        await response.flush()


class _Response:
    def __init__(self, send: Send, is_head: bool) -> None:
        self.coding: str | None = None
        self.maker: Callable[[], _Compressor] | None = None
        self._send = send
        self._is_head = is_head
        self._has_started = False
        self._start: Message | None = None  # it waits for the first part of the body
        self._compressor: _Compressor | None = None
        self._left: int | None = None  # of the Content-Length that the application has given

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            if self._has_started:
                await self.flush()
                await self._send(message)  # raises, as without compression
            self._has_started = True
            # They may be an iterator, and are read several times here.
            self._start = message = {**message, "headers": [*message.get("headers", ())]}
            if _header(message, b"content-type").startswith("text/event-stream"):
                await self._open(0, more=True)  # its first event may be far away
        elif kind == "http.response.body":
            body, more = message.get("body", b""), message.get("more_body", False)
            if self._start is not None:
                await self._open(len(body), more=more)
            if self._compressor is None:
                await self._send(message)
                return
            self._count(len(body), more=more)
            compress = self._compressor.part if more else self._compressor.last
            if more and not body:
                return
            if len(body) > _IN_THREAD:
                body = await asyncio.get_running_loop().run_in_executor(None, compress, body)
            else:
                body = compress(bytes(body))
            await self._send({**message, "body": body})
        else:
            if kind != "http.response.early_hint":
                await self.flush()
            await self._send(message)

    def _count(self, size: int, *, more: bool) -> None:
        # The server cannot: it does not get this length, nor a body that is not whole.
        if self._left is None:
            return
        self._left -= size
        if self._left < 0:
            raise RuntimeError("Response content longer than Content-Length")
        if self._left > 0 and not more:
            raise RuntimeError("Response content shorter than Content-Length")

    async def flush(self) -> None:
        """Send the head as it is."""
        if self._start is not None:
            start, self._start = self._start, None
            if gains_by_coding(_header(start, b"content-type")):
                start = {**start, "headers": _varying(start)}
            await self._send(start)

    async def _open(self, size: int, *, more: bool) -> None:
        assert self._start is not None
        start = self._start
        length = _header(start, b"content-length")
        if length.isdecimal():
            size = int(length)
            more = False
        if (
            self.maker is None
            or start["status"] in _ALONE
            or not gains_by_coding(_header(start, b"content-type"))
            or _header(start, b"content-encoding")
            or "no-transform" in _header(start, b"cache-control").lower()
            or (size < _LEAST and not more)
        ):
            await self.flush()
            return
        headers = []
        for name, value in start.get("headers", ()):
            lower = name.lower()
            if lower in (b"content-length", b"accept-ranges"):
                continue
            if lower == b"etag" and not value.startswith(b"W/"):
                value = b"W/" + value
            headers.append((name, value))
        assert self.coding is not None
        headers.append((b"content-encoding", self.coding.encode()))
        self._start = {**start, "headers": headers}
        if not self._is_head:
            self._compressor = self.maker()
            self._left = int(length) if length.isdecimal() else None
        await self.flush()


def _header(start: Message, name: bytes) -> str:
    """Return a field's value, several lines as one list."""
    return ", ".join(
        bytes(value).decode("latin-1")
        for key, value in start.get("headers", ())
        if key.lower() == name
    )


def _varying(start: Message) -> list[tuple[bytes, bytes]]:
    headers = list(start.get("headers", ()))
    for number, (name, value) in enumerate(headers):
        if name.lower() == b"vary":
            if value.strip() != b"*" and b"accept-encoding" not in value.lower():
                headers[number] = (name, value + b", accept-encoding")
            break
    else:
        headers.append((b"vary", b"accept-encoding"))
    return headers
