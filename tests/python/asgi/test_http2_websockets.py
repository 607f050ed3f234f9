"""WebSocket connections on streams of HTTP/2."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.frames import Close, Frame, Opcode

from .http2_client import (
    CANCEL,
    DATA,
    END_HEADERS,
    HEADERS,
    Http2Client,
    frame,
    sending_frames,
    speaking_http2,
)
from .support import respond, serving

HANDSHAKE = [
    (b":method", b"CONNECT"),
    (b":protocol", b"websocket"),
    (b":scheme", b"http"),
    (b":authority", b"test"),
    (b":path", b"/chat?q"),
    (b"sec-websocket-version", b"13"),
]


def ask(client: Http2Client, *more: tuple[bytes, bytes]) -> int:
    """Ask for a WebSocket."""
    return client.ask([*HANDSHAKE, *more], ends=False)


async def answered(client: Http2Client, stream: int) -> Any:
    while not client.answers[stream].status:
        await client.read()
    return client.answers[stream]


async def next_frame(client: Http2Client, stream: int) -> tuple[int, bytes]:
    """Read a short frame of the server: its opcode and payload."""
    body = client.answers[stream].body
    while len(body) < 2 or len(body) < 2 + body[1]:
        await client.read()
    opcode, size = body[0] & 15, body[1]
    payload = bytes(body[2 : 2 + size])
    del body[: 2 + size]
    return opcode, payload


def text(message: bytes) -> bytes:
    return Frame(Opcode.TEXT, message).serialize(mask=True)


def close(code: int) -> bytes:
    return Frame(Opcode.CLOSE, Close(code, "").serialize()).serialize(mask=True)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await respond(send, b"http")
        return
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept", "subprotocol": "b", "headers": [(b"x-a", b"1")]})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


def test_messages_go_both_ways_beside_requests(run: Any) -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await echo(scope, receive, send)

    async def main() -> None:
        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            assert client.settings[8] == 1
            stream = ask(client, (b"sec-websocket-protocol", b"a, b"))
            answer = await answered(client, stream)
            assert answer.status == 200
            assert answer.fields[b"sec-websocket-protocol"] == b"b"
            assert answer.fields[b"x-a"] == b"1"
            assert not {b"upgrade", b"sec-websocket-accept"} & answer.fields.keys()
            for message in (b"one", b"two"):
                client.send(stream, text(message))
                assert await next_frame(client, stream) == (Opcode.TEXT, message)
            assert (await client.answer(client.ask())).body == b"http"
            client.send(stream, close(1000))
            assert (await next_frame(client, stream))[0] == Opcode.CLOSE
            await client.answer(stream)

    run(main())
    scope = scopes[0]
    assert (scope["type"], scope["http_version"], scope["scheme"]) == ("websocket", "2", "ws")
    assert (scope["path"], scope["query_string"]) == ("/chat", b"q")
    assert scope["subprotocols"] == ["a", "b"]
    assert "method" not in scope


def test_a_large_message_waits_for_the_window(run: Any) -> None:
    size = 300_000

    async def main() -> None:
        async with serving(echo, http2=True) as server, speaking_http2(server) as client:
            stream = ask(client)
            await answered(client, stream)
            message = text(b"x" * size)
            sent = 0
            body = client.answers[stream].body
            while sent < len(message) or len(body) < size + 10:
                sent += client.send(stream, message[sent:])
                if sent < len(message) or len(body) < size + 10:
                    await client.read()
            assert bytes(body[10:]) == b"x" * size

    run(main())


@pytest.mark.parametrize("how", ["reset", "end", "lost"])
def test_a_client_that_goes_disconnects_the_application(run: Any, how: str) -> None:
    async def main() -> None:
        seen: asyncio.Queue[Any] = asyncio.Queue()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "websocket.accept"})
            seen.put_nowait(await receive())

        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            stream = ask(client)
            await answered(client, stream)
            if how == "reset":
                client.h2.reset_stream(stream, CANCEL)
            elif how == "end":
                client.h2.end_stream(stream)
            else:
                client.writer.transport.abort()
            client.flush()
            message = await seen.get()
            assert message["type"] == "websocket.disconnect"
            assert message["code"] in (1005, 1006)

    run(main())


def test_refusals(run: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if scope["query_string"] == b"q":
            start = {"type": "websocket.http.response.start", "status": 401, "headers": []}
            await send(start)
            await send({"type": "websocket.http.response.body", "body": b"who?"})

    async def main() -> None:
        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            answer = await client.answer(ask(client))
            assert (answer.status, bytes(answer.body)) == (401, b"who?")
        async with serving(app, http2=True, ws=False) as server, speaking_http2(server) as client:
            assert client.settings.get(8, 0) == 0

    run(main())


def test_a_host_that_http_1_does_not_know_is_refused(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(echo, http2=True) as server, speaking_http2(server) as client:
            fields = [
                (key, b"user@test" if key == b":authority" else value) for key, value in HANDSHAKE
            ]
            answer = await client.answer(client.ask(fields, ends=False))
            assert answer.status == 400

    run(main())
    assert not caplog.records


def test_an_error_of_the_protocol_ends_the_stream(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a socket, where the loop aborts the transport. The client has waited for ever."""

    def fail(self: Any, data: bytes) -> None:
        raise MemoryError("no room for a message")

    async def main() -> None:
        seen: asyncio.Queue[Any] = asyncio.Queue()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await respond(send, b"http")
                return
            await receive()
            await send({"type": "websocket.accept"})
            seen.put_nowait(await receive())

        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            stream = ask(client)
            await answered(client, stream)
            monkeypatch.setattr("penstock.asgi._websocket._Connection.data_received", fail)
            client.send(stream, text(b"message"))
            assert (await client.answer(stream)).reset is not None
            assert (await seen.get()) == {
                "type": "websocket.disconnect",
                "code": 1006,
                "reason": "",
            }
            assert (await client.answer(client.ask())).body == b"http"

    run(main())
    assert "no room for a message" in caplog.text


def test_the_server_closes_with_1012(run: Any) -> None:
    async def main() -> None:
        async with serving(echo, http2=True) as server, sending_frames(server) as raw:
            raw.write(frame(HEADERS, END_HEADERS, 1, bytes(raw.encoder.encode(HANDSHAKE))))
            await raw.next_of(HEADERS)
            server.close()
            _, _, _, payload = await raw.next_of(DATA)
            assert payload[:1] == b"\x88"  # a close frame
            assert payload[2:4] == (1012).to_bytes(2, "big")

    run(main())
