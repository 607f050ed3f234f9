"""Applications, and a client that sends bytes as they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from penstock import asgi

HOST = b"Host: test\r\n"
CLOSE = HOST + b"Connection: close\r\n\r\n"

Handler = Callable[[Any, Any, Any], Awaitable[Any]]


async def respond(
    send: Any,
    body: bytes = b"",
    status: int = 200,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": status, "headers": headers or []})
    await send({"type": "http.response.body", "body": body})


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await respond(send, b"hello", headers=[(b"content-type", b"text/plain")])


async def body_of(receive: Any) -> bytes:
    """Receive a whole body."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asgi.ClientDisconnected
        body += message["body"]
        if not message["more_body"]:
            return body


async def echo(scope: Any, receive: Any, send: Any) -> None:
    await respond(send, await body_of(receive))


@asynccontextmanager
async def serving(app: Handler, **options: Any) -> AsyncIterator[asgi.Server]:
    options = {"access_log": False, "lifespan": "off", **options}
    async with asgi.serve(app, port=0, **options) as server:
        yield server


class Client:
    """A connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read the head of a response: its status and its fields, with lower-case names."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, value in fields.items()}

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """Read a whole response."""
        status, fields = await self.head()
        if "content-length" in fields:
            return status, fields, await self.reader.readexactly(int(fields["content-length"]))
        if fields.get("transfer-encoding") != "chunked":
            return status, fields, await self.reader.read()
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        assert await self.reader.readexactly(2) == b"\r\n"
        return status, fields, body


@asynccontextmanager
async def connected(server: asgi.Server) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def ask(app: Handler, request: bytes, **options: Any) -> tuple[int, dict[str, str], bytes]:
    """Serve an application for one request; return the response."""
    async with serving(app, **options) as server, connected(server) as client:
        client.writer.write(request)
        return await client.response()


async def conversation(server: asgi.Server, request: bytes) -> bytes:
    """Send bytes, and return what comes back until the server closes."""
    async with connected(server) as client:
        client.writer.write(request)
        return await client.reader.read()
