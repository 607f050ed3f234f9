"""The server: how it is closed, its connections, its handlers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from penstock import websocket
from tests.python.loop.certificates import server_context

from .libraries import SERVERS, address, echo, seen


@pytest.mark.parametrize("library", list(SERVERS))
def test_cancelled_serve_forever_closes_the_connections(
    run: Callable[..., Any], library: str
) -> None:
    async def main() -> None:
        server = await SERVERS[library](echo, "127.0.0.1", 0)
        connection = await websocket.connect(address(server))
        serving = asyncio.create_task(server.serve_forever())
        await connection.send("hello")
        assert await connection.recv() == "hello"
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        with pytest.raises(websocket.ConnectionClosedOK) as end:
            await connection.recv()
        assert seen(end.value) == ("ConnectionClosedOK", (1001, ""), 1001)
        assert not server.is_serving()

    run(main())


@pytest.mark.parametrize("library", list(SERVERS))
def test_serve_forever_returns_when_the_server_is_closed(
    run: Callable[..., Any], library: str
) -> None:
    async def main() -> None:
        server = await SERVERS[library](echo, "127.0.0.1", 0)
        both = [asyncio.create_task(server.serve_forever()) for _ in range(2)]
        await asyncio.sleep(0)
        server.close()
        assert await asyncio.gather(*both) == [None, None]

    run(main())


@pytest.mark.parametrize("close", [{"code": 1005}, {"code": 999}, {"reason": "x" * 124}])
def test_close_that_cannot_be_sent_leaves_the_server_open(
    run: Callable[..., Any], close: dict[str, Any]
) -> None:
    async def main() -> None:
        server = await websocket.serve(echo, "127.0.0.1", 0)
        connection = await websocket.connect(address(server))
        with pytest.raises(websocket.ProtocolError):
            server.close(**close)
        assert server.is_serving()
        await connection.send("hello")
        assert await connection.recv() == "hello"
        server.close()
        await server.wait_closed()

    run(main())


@pytest.mark.parametrize("library", list(SERVERS))
def test_serving_may_start_later(run: Callable[..., Any], library: str) -> None:
    async def main() -> None:
        server = await SERVERS[library](echo, "127.0.0.1", 0, start_serving=False)
        assert not server.is_serving()
        await server.start_serving()
        async with websocket.connect(address(server)):
            pass
        server.close()
        await server.wait_closed()

    run(main())


@pytest.mark.parametrize("library", list(SERVERS))
def test_connections_may_close_during_an_iteration(run: Callable[..., Any], library: str) -> None:
    async def main() -> None:
        async with SERVERS[library](echo, "127.0.0.1", 0) as server:
            for _ in range(3):
                connection = await websocket.connect(address(server))
                await connection.send("hello")
                assert await connection.recv() == "hello"
            assert len(server.connections) == 3
            for each in server.connections:
                await each.close()
            assert not server.connections

    run(main())


@pytest.mark.parametrize("library", list(SERVERS))
def test_end_of_another_connection_is_a_failure_of_the_handler(
    run: Callable[..., Any], library: str
) -> None:
    async def leave(connection: Any) -> None:
        pass

    async def main() -> None:
        async with SERVERS[library](leave, "127.0.0.1", 0) as origin:

            async def forward(connection: Any) -> None:
                async with websocket.connect(address(origin)) as upstream:
                    await connection.send(await upstream.recv())

            async with SERVERS[library](forward, "127.0.0.1", 0) as proxy:
                connection = await websocket.connect(address(proxy))
                with pytest.raises(websocket.ConnectionClosedError) as end:
                    await connection.recv()
                assert seen(end.value) == ("ConnectionClosedError", (1011, ""), 1011)

    run(main())


def test_connection_that_a_closing_server_has_accepted_is_ended(run: Callable[..., Any]) -> None:
    async def main() -> None:
        if type(asyncio.get_running_loop()) is asyncio.SelectorEventLoop:
            pytest.skip("asyncio's closed server fails to attach a connection")
        for turns in range(8):
            server = await websocket.serve(echo, "127.0.0.1", 0, open_timeout=None)
            connecting = asyncio.create_task(
                asyncio.open_connection(*server.sockets[0].getsockname())
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            server.close()
            await server.wait_closed()
            with contextlib.suppress(OSError):
                reader, writer = await connecting
                assert await asyncio.wait_for(reader.read(), 20) == b""
                writer.close()

    run(main())


def test_client_that_does_not_begin_tls_is_disconnected(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with websocket.serve(
            echo, "127.0.0.1", 0, ssl=server_context(), open_timeout=0.05
        ) as server:
            host, port = server.sockets[0].getsockname()[:2]
            reader, writer = await asyncio.open_connection(host, port)
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()

    run(main())


def test_broadcast_reports_whom_it_skips(
    run: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0) as server:
            busy, free = [await websocket.connect(address(server)) for _ in range(2)]
            started, release = asyncio.Event(), asyncio.Event()

            async def parts() -> Any:
                yield "one "
                started.set()
                await release.wait()
                yield "message"

            sending = asyncio.create_task(busy.send(parts()))  # type: ignore[arg-type]
            await started.wait()
            websocket.broadcast([busy, free], "all")
            assert "skipped broadcast" in caplog.text
            with pytest.raises(ExceptionGroup, match="skipped broadcast") as raised:
                websocket.broadcast([busy, free], b"all", raise_exceptions=True)
            assert [type(each) for each in raised.value.exceptions] == [websocket.ConcurrencyError]
            with pytest.raises(TypeError, match="not list"):
                websocket.broadcast([free], ["all"])  # type: ignore[arg-type]
            assert [await free.recv() for _ in range(2)] == ["all", b"all"]
            release.set()
            await sending
            assert await busy.recv() == "one message"
            for connection in (busy, free):
                await connection.close()

    run(main())
