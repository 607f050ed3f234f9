"""WebSocket connections of applications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from penstock import asgi, websocket

from .support import CLOSE, HOST, connected, conversation, respond, serving

Run = Callable[..., Any]


def url(server: asgi.Server) -> str:
    return f"ws://127.0.0.1:{server.port}/chat?x=1"


async def accepted(receive: Any, send: Any, **options: Any) -> None:
    assert await receive() == {"type": "websocket.connect"}
    await send({"type": "websocket.accept", **options})


def test_scope_and_messages(run: Run) -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await accepted(receive, send, subprotocol="b", headers=[(b"x-one", b"1")])
        while (message := await receive())["type"] == "websocket.receive":
            await send({**message, "type": "websocket.send"})
        end.set_result(message)

    async def main() -> None:
        global end
        end = asyncio.get_running_loop().create_future()
        async with serving(app) as server:
            async with websocket.connect(url(server), subprotocols=["a", "b"]) as client:
                assert client.subprotocol == "b"
                assert client.response is not None
                assert client.response.headers["x-one"] == "1"
                for message in ("text", b"bytes", "x" * 100_000, ""):
                    await client.send(message)
                    assert await client.recv() == message
                await client.close(3001, "bye")
            assert await end == {"type": "websocket.disconnect", "code": 3001, "reason": "bye"}

    run(main())
    (scope,) = scopes
    assert (scope["type"], scope["scheme"]) == ("websocket", "ws")
    assert (scope["path"], scope["query_string"]) == ("/chat", b"x=1")
    assert scope["subprotocols"] == ["a", "b"]
    assert scope["extensions"] == {"websocket.http.response": {}}
    assert "method" not in scope


end: asyncio.Future[Any]


@pytest.mark.parametrize(
    ("answers", "status", "body"),
    [
        ([{"type": "websocket.close"}], 403, b""),
        (
            [
                {"type": "websocket.http.response.start", "status": 401, "headers": [(b"x", b"y")]},
                {"type": "websocket.http.response.body", "body": b"who ", "more_body": True},
                {"type": "websocket.http.response.body", "body": b"are you"},
            ],
            401,
            b"who are you",
        ),
        ([], 500, b"Internal Server Error"),
        ([{"type": "websocket.send", "text": "x"}], 500, b"Internal Server Error"),
        (
            [{"type": "websocket.accept", "headers": [(b"a", b"b\r\nc: d")]}],
            500,
            b"Internal Server Error",
        ),
        (
            [{"type": "websocket.accept", "subprotocol": "a\r\nb: c"}],
            500,
            b"Internal Server Error",
        ),
        (
            [{"type": "websocket.http.response.start", "status": 101, "headers": []}],
            500,
            b"Internal Server Error",
        ),
    ],
)
def test_a_refused_client(run: Run, answers: list[Any], status: int, body: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert await receive() == {"type": "websocket.connect"}
        for answer in answers:
            await send(answer)
        if status < 500:
            assert (await receive())["code"] == 1006
            with pytest.raises(RuntimeError, match="already completed"):
                await send({"type": "websocket.accept"})

    async def main() -> None:
        async with serving(app) as server:
            with pytest.raises(websocket.InvalidStatus) as refused:
                await websocket.connect(url(server))
            assert refused.value.response.status_code == status
            assert refused.value.response.body == body

    run(main())


HANDSHAKE = (
    b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + HOST
)


@pytest.mark.parametrize(
    "fields", [b"Cookie: " + b"x" * 20_000 + b"\r\n", b"X: y\r\n" * 200], ids=["long", "many"]
)
def test_a_handshake_has_the_limits_of_other_requests(run: Run, fields: bytes) -> None:
    """Its head was parsed once more, with other limits, which was an error of the protocol."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await accepted(receive, send)

    async def main() -> None:
        async with serving(app, limit_head_fields=300) as server, connected(server) as client:
            client.writer.write(HANDSHAKE + fields + b"\r\n")
            assert (await client.head())[0] == 101

    run(main())


def test_a_denial_that_has_no_body(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"4")]
        await send({"type": "websocket.http.response.start", "status": 204, "headers": headers})
        with pytest.raises(TypeError):
            await send({"type": "websocket.http.response.body", "body": 4})
        await send({"type": "websocket.http.response.body", "body": b"body"})

    async def main() -> None:
        async with serving(app) as server:
            answer = await conversation(server, HANDSHAKE + b"\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 204 ")
        assert b"transfer-encoding" not in head
        assert b"content-length" not in head
        assert body == b""

    run(main())


@pytest.mark.parametrize(
    "message", [{"bytes": "text"}, {"text": b"bytes"}, {"bytes": [b"a", b"b"]}, {"text": None}]
)
def test_a_message_of_another_type_raises(run: Run, message: dict[str, Any]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await accepted(receive, send)
        with pytest.raises(TypeError, match="a message must be bytes"):
            await send({"type": "websocket.send", **message})
        await send({"type": "websocket.send", "bytes": bytearray(b"right")})

    async def main() -> None:
        async with serving(app) as server, websocket.connect(url(server)) as client:
            assert await client.recv() == b"right"

    run(main())


def test_two_tasks_receive(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await accepted(receive, send)
        tasks = [asyncio.ensure_future(receive()) for _ in range(4)]
        await asyncio.sleep(0)
        tasks.pop(1).cancel()
        await send({"type": "websocket.send", "text": "go on"})
        messages = await asyncio.gather(*tasks)
        assert [message.get("text", message["type"]) for message in messages] == [
            "one",
            "two",
            "websocket.disconnect",
        ]
        ends.append(await receive())

    async def main() -> None:
        async with serving(app) as server, websocket.connect(url(server)) as client:
            assert await client.recv() == "go on"
            await client.send("one")
            await client.send("two")
            await client.close(3000)

    ends: list[Any] = []
    run(main())
    assert ends == [{"type": "websocket.disconnect", "code": 3000, "reason": ""}]


def test_a_client_that_asks_while_the_server_closes(run: Run) -> None:
    """Its head has begun before, so its connection is not closed as an idle one."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await respond(send)
            return
        assert (await receive())["type"] == "websocket.connect"
        messages.append(await receive())

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(HANDSHAKE)
            # It has read that before it has a later request of another client.
            await conversation(server, b"GET / HTTP/1.1\r\n" + CLOSE)
            server.close()
            await asyncio.sleep(0)
            client.writer.write(b"\r\n")
            assert (await client.response())[0] == 503
            await server.wait_closed()

    messages: list[Any] = []
    run(main())
    assert messages == [{"type": "websocket.disconnect", "code": 1012, "reason": ""}]


@pytest.mark.parametrize("way", ["close", "return", "raise"])
def test_an_application_that_ends(run: Run, way: str, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await accepted(receive, send)
        if way == "raise":
            raise ValueError("no")
        if way == "close":
            await send({"type": "websocket.close", "code": 3002, "reason": "why"})
            assert await receive() == {
                "type": "websocket.disconnect",
                "code": 3002,
                "reason": "why",
            }
            with pytest.raises(RuntimeError, match="after sending"):
                await send({"type": "websocket.send", "text": "late"})

    async def main() -> None:
        async with serving(app) as server, websocket.connect(url(server)) as client:
            with pytest.raises(websocket.ConnectionClosed):
                await client.recv()
            assert client.close_rcvd is not None
            assert client.close_rcvd.code == {"close": 3002, "return": 1000, "raise": 1011}[way]

    with caplog.at_level(logging.ERROR):
        run(main())
    assert len(caplog.records) == (way == "raise")


@pytest.mark.parametrize("before", [True, False])
def test_a_client_that_goes(run: Run, before: bool) -> None:
    async def main() -> None:
        seen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        begun = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if before:
                await receive()
            else:
                await accepted(receive, send)
            begun.set()
            message = await receive()
            with pytest.raises(OSError, match="client has closed"):
                await send({"type": "websocket.accept" if before else "websocket.send", "text": ""})
            seen.set_result(message)

        async with serving(app) as server, connected(server) as client:
            client.writer.write(HANDSHAKE + b"\r\n")
            await begun.wait()
            client.writer.close()
            assert await seen == {"type": "websocket.disconnect", "code": 1006, "reason": ""}

    run(main())


def test_a_bad_handshake(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(
                b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + HOST + b"\r\n"
            )
            status, fields, _ = await client.response()
            assert (status, fields["sec-websocket-version"]) == (426, "13")

    run(main())


def test_closing_the_server_says_so(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await accepted(receive, send)
        assert (await receive())["code"] == 1012

    async def main() -> None:
        async with serving(app) as server, websocket.connect(url(server)) as client:
            server.close()
            with pytest.raises(websocket.ConnectionClosed):
                await client.recv()
            assert client.close_rcvd is not None
            assert client.close_rcvd.code == 1012
            await server.wait_closed()

    run(main())


def test_starlette(run: Run) -> None:
    async def echo(connection: WebSocket) -> None:
        await connection.accept()
        async for text in connection.iter_text():
            await connection.send_json({"got": text})

    async def main() -> None:
        app = Starlette(routes=[WebSocketRoute("/chat", echo)])
        async with serving(app) as server, websocket.connect(url(server)) as client:
            await client.send("hello")
            assert await client.recv() == '{"got":"hello"}'

    run(main())
