"""httpx.AsyncClient against a server on the same loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest
import trustme

from .conftest import Run

LARGE = bytes(range(256)) * 10_000


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve a connection: answer each HTTP/1.1 request with its own body, chunked."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            if b"ransfer-encoding: chunked" in head.lower():
                while (size := int(await reader.readline(), 16)) > 0:
                    chunk = await reader.readexactly(size)
                    await reader.readexactly(2)
                    writer.write(b"%x\r\n%b\r\n" % (size, chunk))
                    await writer.drain()
                await reader.readexactly(2)
            if head.startswith(b"GET /never "):
                await writer.drain()
                await reader.read()
                break
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


async def pieces() -> AsyncIterator[bytes]:
    for start in range(0, len(LARGE), 60_000):
        yield LARGE[start : start + 60_000]


async def exchange(client: httpx.AsyncClient) -> None:
    """Send a stream, and read the response while it arrives."""
    async with client.stream("POST", "/", content=pieces()) as answer:
        received = b"".join([chunk async for chunk in answer.aiter_bytes()])
    assert received == LARGE


def test_bodies_are_streamed_in_both_directions_over_kept_connections(run: Run) -> None:
    async def main() -> None:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{port_of(server)}"
        limits = httpx.Limits(max_connections=5)
        async with httpx.AsyncClient(base_url=url, limits=limits) as client:
            for _ in range(3):
                await exchange(client)
            await asyncio.gather(*(exchange(client) for _ in range(10)))
        server.close()
        await server.wait_closed()

    run(main())


def test_a_read_timeout_raises_and_the_client_remains_usable(run: Run) -> None:
    async def main() -> None:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{port_of(server)}"
        async with httpx.AsyncClient(base_url=url) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get("/never", timeout=httpx.Timeout(10, read=0.05))
            assert (await client.get("/")).status_code == 200
        server.close()
        await server.wait_closed()

    run(main())


def test_a_refused_connection_raises_connect_error(run: Run) -> None:
    async def main() -> None:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{port_of(server)}"
        server.close()
        await server.wait_closed()
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(url)

    run(main())


def test_a_tls_connection_verifies_the_certificate(run: Run) -> None:
    authority = trustme.CA()
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(server_context)
    client_context = ssl.create_default_context()
    authority.configure_trust(client_context)

    async def main() -> None:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0, ssl=server_context)
        url = f"https://localhost:{port_of(server)}"
        async with httpx.AsyncClient(base_url=url, verify=client_context) as client:
            await exchange(client)
            await asyncio.gather(*(exchange(client) for _ in range(5)))
        async with httpx.AsyncClient() as stranger:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.get(url)
        server.close()
        await server.wait_closed()

    run(main())
