"""Servers and proxies that speak just enough HTTP for one case, on asyncio's streams."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Read the request and answer it with 101; return its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
    assert found is not None
    digest = hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: WEBSOCKET\r\nconnection: upgrade\r\n"
        b"sec-websocket-accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )
    return head.decode("latin-1")


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """Serve on 127.0.0.1; yield the port."""

    async def close_behind(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(close_behind, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def answer(writer: asyncio.StreamWriter, status: str, *fields: str) -> None:
    lines = [f"HTTP/1.1 {status}", "Content-Length: 0", *fields, "", ""]
    writer.write("\r\n".join(lines).encode())
    await writer.drain()


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Carry bytes between a client and a server on 127.0.0.1 until either ends."""
    there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        target.close()

    await asyncio.gather(carry(reader, there_writer), carry(there_reader, writer))


async def connect_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[str]:
    """Be an HTTP proxy for one tunnel; return the lines of its request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Open\r\nContent-Length: 9\r\n\r\n")
    await forward(reader, writer, int(head.split()[1].rpartition(":")[2]))
    return head.split("\r\n")


async def socks5_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Be a SOCKS5 proxy without authentication for one connection; return the host's name."""
    _, count = await reader.readexactly(2)
    await reader.readexactly(count)
    writer.write(b"\x05\x00")
    *_, kind = await reader.readexactly(4)
    if kind == 1:
        host = ".".join(map(str, await reader.readexactly(4)))
    else:
        assert kind == 3
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
    port = int.from_bytes(await reader.readexactly(2), "big")
    writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
    await forward(reader, writer, port)
    return host
