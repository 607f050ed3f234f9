"""Each client understands each server: penstock.websocket, `websockets` and aiohttp."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trustme

from penstock import websocket

from .libraries import CLIENTS, SERVERS, address, echo

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("aiohttp.web")

MESSAGES: list[str | bytes] = [
    "",
    b"",
    "hello",
    "grüße 😀",
    b"\x00\xff" * 50,
    "x" * 125,
    b"y" * 126,
    "z" * 65535,
    b"w" * 65536,
    "ä" * 300_000,
]
PAIRS = [pair for pair in ((c, s) for c in CLIENTS for s in SERVERS) if "penstock" in pair]


@pytest.mark.parametrize("compression", [None, "deflate"])
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_messages_return_unchanged(
    run: Callable[..., Any], client: str, server: str, compression: str | None
) -> None:
    async def main() -> None:
        async with (
            SERVERS[server](echo, "127.0.0.1", 0, compression=compression) as served,
            CLIENTS[client](address(served), compression=compression) as connection,
        ):
            for message in MESSAGES:
                await connection.send(message)
                assert await connection.recv() == message
            for message in MESSAGES * 3:
                await connection.send(message)
            assert [await connection.recv() for _ in MESSAGES * 3] == MESSAGES * 3
            await connection.send(["one ", "two ", "three"])
            assert await connection.recv() == "one two three"
            await (await connection.ping())
        assert (connection.close_code, connection.close_reason) == (1000, "")

    run(main())


@pytest.mark.parametrize("compress", [0, 15])
def test_aiohttp_serves_penstock(run: Callable[..., Any], compress: int) -> None:
    async def handler(request: aiohttp.web.Request) -> aiohttp.web.WebSocketResponse:
        response = aiohttp.web.WebSocketResponse(compress=bool(compress), protocols=["echo"])
        await response.prepare(request)
        async for message in response:
            if message.type is aiohttp.WSMsgType.TEXT:
                await response.send_str(message.data)
            else:
                await response.send_bytes(message.data)
        return response

    async def main() -> None:
        app = aiohttp.web.Application()
        app.router.add_get("/", handler)
        runner = aiohttp.web.AppRunner(app)
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with websocket.connect(
            f"ws://127.0.0.1:{port}/", subprotocols=["other", "echo"]
        ) as connection:
            assert connection.subprotocol == "echo"
            for message in MESSAGES:
                await connection.send(message)
                assert await connection.recv() == message
        await runner.cleanup()
        assert connection.close_code == 1000

    run(main())


@pytest.mark.parametrize("compress", [0, 15])
def test_penstock_serves_aiohttp(run: Callable[..., Any], compress: int) -> None:
    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as served,
            aiohttp.ClientSession() as session,
            session.ws_connect(address(served), compress=compress) as connection,
        ):
            for message in MESSAGES:
                if isinstance(message, str):
                    await connection.send_str(message)
                    assert await connection.receive_str() == message
                else:
                    await connection.send_bytes(message)
                    assert await connection.receive_bytes() == message
            await connection.close(code=1000)
            assert connection.close_code == 1000

    run(main())


def test_messages_pass_through_tls(run: Callable[..., Any]) -> None:
    authority = trustme.CA()
    served_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(served_context)
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0, ssl=served_context) as served:
            port = served.sockets[0].getsockname()[1]
            async with websocket.connect(
                f"wss://localhost:{port}/", ssl=context, host="127.0.0.1"
            ) as connection:
                for message in MESSAGES:
                    await connection.send(message)
                    assert await connection.recv() == message
            assert connection.close_code == 1000
            with pytest.raises(ssl.SSLCertVerificationError):
                await websocket.connect(f"wss://localhost:{port}/", host="127.0.0.1")

    run(main())


def test_many_connections_receive_what_is_broadcast(run: Callable[..., Any]) -> None:
    async def wait(connection: websocket.ServerConnection) -> None:
        await connection.wait_closed()

    async def main() -> None:
        async with websocket.serve(wait, "127.0.0.1", 0) as served:
            clients = [await websocket.connect(address(served)) for _ in range(20)]
            websocket.broadcast(served.connections, "news")
            assert await asyncio.gather(*(client.recv() for client in clients)) == ["news"] * 20
            for client in clients:
                await client.close()

    run(main())
