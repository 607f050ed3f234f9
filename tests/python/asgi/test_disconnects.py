"""Clients that go, and servers that close."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from penstock import asgi

from .support import CLOSE, HOST, connected, hello, respond, serving

Run = Callable[..., Any]
REQUEST = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST."""
    writer.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    writer.transport.abort()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_handler_hears_at_once_that_its_client_has_gone(run: Run, how: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        seen: asyncio.Future[Any] = loop.create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            assert (await receive())["type"] == "http.request"
            waiting.set_result(None)
            message = await receive()
            with pytest.raises(OSError, match="client has closed") as error:
                await respond(send)
            seen.set_result((message, type(error.value)))
            assert await receive() == {"type": "http.disconnect"}

        async with serving(app) as server, connected(server) as client:
            client.writer.write(REQUEST)
            await waiting
            if how == "reset":
                reset(client.writer)
            else:
                client.writer.close()
            assert await seen == ({"type": "http.disconnect"}, asgi.ClientDisconnected)

    run(main())


@pytest.mark.parametrize("grouped", [False, True])
def test_a_stream_to_a_client_that_has_gone_ends_without_a_log_line(
    run: Run, grouped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})

            async def stream() -> None:
                while True:
                    await send({"type": "http.response.body", "body": b"x", "more_body": True})
                    await asyncio.sleep(0)

            try:
                if grouped:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(stream())
                        group.create_task(asyncio.sleep(60))
                else:
                    await stream()
            finally:
                ended.set()

        async with serving(app) as server, connected(server) as client:
            client.writer.write(REQUEST)
            await client.head()
            client.writer.close()
            await ended.wait()

    with caplog.at_level(logging.INFO):
        run(main())
    assert not caplog.records


def test_a_send_that_waits_ends_with_the_connection(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: asyncio.Future[Any] = loop.create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            try:
                while True:
                    await send(
                        {"type": "http.response.body", "body": bytes(1 << 20), "more_body": True}
                    )
            except OSError as error:
                seen.set_result(type(error))

        async with serving(app) as server, connected(server) as client:
            client.writer.write(REQUEST)
            await client.head()
            reset(client.writer)
            assert await seen is asgi.ClientDisconnected

    run(main())


def test_a_client_that_ends_its_side_gets_its_response(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.02)
        await respond(send, b"done")

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(REQUEST)
            client.writer.write_eof()
            assert (await client.response())[2] == b"done"
            assert await client.reader.read() == b""

    run(main())


def test_a_client_that_ended_its_side_is_closed_when_its_application_is_cancelled(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        raise asyncio.CancelledError

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(REQUEST)
            client.writer.write_eof()
            assert await asyncio.wait_for(client.reader.read(), 10) == b""

    run(main())


def test_a_body_that_ends_too_early_is_a_disconnect(run: Run) -> None:
    async def main() -> None:
        seen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            seen.set_result([await receive(), await receive()])

        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n" + HOST + b"\r\nab")
            client.writer.write_eof()
            assert await seen == [
                {"type": "http.request", "body": b"ab", "more_body": True},
                {"type": "http.disconnect"},
            ]

    run(main())


def test_a_malformed_body_ends_a_response_that_has_begun(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        part = {"type": "http.response.body", "body": b"part", "more_body": True}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send(part)
        assert await receive() == {"type": "http.disconnect"}
        with pytest.raises(OSError, match="client has closed"):
            await send(part)
        ends.append("told")

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST)
            client.writer.write(b"\r\n")
            await client.head()
            assert await client.reader.readuntil(b"part\r\n") == b"4\r\npart\r\n"
            client.writer.write(b"no size\r\n")
            assert await client.reader.read() == b""

    ends: list[str] = []
    run(main())
    assert ends == ["told"]


def test_closing_waits_for_requests(run: Run) -> None:
    async def main() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            begun.set()
            await go.wait()
            await respond(send, b"done")

        async with serving(app) as server, connected(server) as idle, connected(server) as client:
            client.writer.write(REQUEST)
            await begun.wait()
            server.close()
            assert await idle.reader.read() == b""
            asyncio.get_running_loop().call_later(0.02, go.set)
            _, fields, body = await client.response()
            assert (fields["connection"], body) == ("close", b"done")
            await server.wait_closed()
            assert server.open_connections == 0

    run(main())


def test_what_does_not_end_is_told_and_cancelled(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.asgi._server._AFTER_DISCONNECT", 0.05)

    async def main() -> None:
        ends = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            try:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await receive()
                await receive()
                ends.append("told")
                if scope["path"] == "/stubborn":
                    await asyncio.Event().wait()
                await send({"type": "http.response.body", "body": b"bye"})
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        async with (
            serving(app, timeout_graceful_shutdown=0.05) as server,
            connected(server) as client,
            connected(server) as stubborn,
        ):
            client.writer.write(REQUEST)
            stubborn.writer.write(b"GET /stubborn HTTP/1.1\r\n" + HOST + b"\r\n")
            await client.head()
            await stubborn.head()
            server.close()
            assert (await client.reader.read()).endswith(b"bye\r\n0\r\n\r\n")
            await server.wait_closed()
        assert sorted(ends) == ["cancelled", "told", "told"]

    with caplog.at_level(logging.ERROR):
        run(main())
    assert len(caplog.records) == 1


def test_a_request_that_is_cancelled_is_answered(run: Run) -> None:
    async def main() -> None:
        begun: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            begun.set_result(asyncio.current_task())
            await asyncio.Event().wait()

        async with serving(app) as server, connected(server) as client:
            client.writer.write(REQUEST)
            task = await begun
            task.cancel()
            assert (await client.response())[0] == 500
            assert task.cancelled()

    run(main())


@pytest.mark.parametrize("asked", [False, True])
def test_a_cancellation_that_nobody_has_asked_for_is_logged(
    run: Run, asked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As where what an application waits for was cancelled by somebody else."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        waited = asyncio.get_running_loop().create_future()
        if asked:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        else:
            waited.cancel()
        await waited

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(REQUEST)
            assert (await client.response())[0] == 500
        async with serving(app) as server, connected(server) as client:
            client.writer.write(
                b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            )
            client.writer.write(HOST + b"\r\n")
            assert (await client.response())[0] == 500

    with caplog.at_level(logging.ERROR):
        run(main())
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ([] if asked else ["Exception in ASGI application\n"] * 2)


def test_idle_connections_are_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.asgi._server._SWEEP_INTERVAL", 0.02)

    async def main() -> None:
        async with (
            serving(hello, timeout_keep_alive=0.05, timeout_head=0.3) as server,
            connected(server) as idle,
            connected(server) as slow,
        ):
            slow.writer.write(b"GET / HTTP/1.1\r\nX: ")
            idle.writer.write(REQUEST)
            await idle.response()
            assert await idle.reader.read() == b""
            assert server.open_connections == 1

            async def drip() -> None:
                while not slow.writer.is_closing():
                    slow.writer.write(b"x")
                    await asyncio.sleep(0.02)

            dripping = asyncio.create_task(drip())
            assert await slow.reader.read() == b""
            dripping.cancel()

    run(main())


def test_lifespan(run: Run) -> None:
    async def main() -> None:
        seen: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                scope["state"]["shared"] = []
                for phase in ("startup", "shutdown"):
                    seen.append((await receive())["type"])
                    await send({"type": f"lifespan.{phase}.complete"})
                return
            scope["state"]["shared"].append(1)
            scope["state"]["own"] = 1
            seen.append(dict(scope["state"]))
            await respond(send)

        async with serving(app, lifespan="on") as server, connected(server) as client:
            for _ in range(2):
                client.writer.write(REQUEST)
                await client.response()
        shared = {"shared": [1, 1], "own": 1}
        assert seen == ["lifespan.startup", shared, shared, "lifespan.shutdown"]

    run(main())


@pytest.mark.parametrize("mode", ["auto", "on"])
def test_an_application_without_a_lifespan(
    run: Run, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http", "no lifespan here"
        await respond(send)

    async def main() -> None:
        async with serving(app, lifespan=mode) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            assert (await client.response())[0] == 200

    if mode == "auto":
        run(main())
    else:
        with pytest.raises(asgi.LifespanFailed, match="no lifespan here"):
            run(main())


def test_an_application_that_refuses_to_start(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    async def main() -> None:
        with pytest.raises(asgi.LifespanFailed, match="no database"):
            await asgi.serve(app, port=0)

    run(main())
