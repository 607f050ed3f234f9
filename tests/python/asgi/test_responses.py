"""What a client gets: framing, fields, and the end of applications that break the rules."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from .http2_client import until
from .support import CLOSE, HOST, ask, connected, conversation, hello, respond, serving

Run = Callable[..., Any]
GET = b"GET / HTTP/1.1\r\n" + CLOSE


def test_a_whole_body_has_a_length(run: Run) -> None:
    async def main() -> None:
        status, fields, body = await ask(hello, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (status, body) == (200, b"hello")
        assert fields.pop("date").endswith(" GMT")
        assert fields == {
            "content-type": "text/plain",
            "server": "penstock",
            "content-length": "5",
        }

    run(main())


def test_server_and_date_are_the_applications_if_it_sends_them(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, headers=[(b"Server", b"mine"), (b"Date", b"today")])

    async def main() -> None:
        async with serving(app, headers=[("X-Other", "1")]) as server:
            answer = await conversation(server, GET)
        assert answer == (
            b"HTTP/1.1 200 OK\r\nServer: mine\r\nDate: today\r\nx-other: 1\r\n"
            b"content-length: 0\r\nconnection: close\r\n\r\n"
        )

    run(main())


async def streamed(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"one", b"", b"two"):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body"})


def test_a_streamed_body_is_chunked(run: Run) -> None:
    async def main() -> None:
        async with serving(streamed) as server:
            answer = await conversation(server, GET)
        assert answer.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
        assert b"transfer-encoding: chunked\r\n" in answer

    run(main())


@pytest.mark.parametrize("keep_alive", [False, True])
def test_http_1_0(run: Run, keep_alive: bool) -> None:
    async def main() -> None:
        field = b"Connection: keep-alive\r\n" if keep_alive else b""
        async with serving(streamed) as server:
            answer = await conversation(server, b"GET / HTTP/1.0\r\n" + field + b"\r\n")
        assert answer.endswith(b"connection: close\r\n\r\nonetwo")
        async with serving(hello) as server, connected(server) as client:
            for _ in range(2 if keep_alive else 1):
                client.writer.write(b"GET / HTTP/1.0\r\n" + field + b"\r\n")
                _, fields, body = await client.response()
                assert fields["connection"] == ("keep-alive" if keep_alive else "close")
                assert body == b"hello"

    run(main())


def test_no_body_follows_where_there_is_none(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        status = int(scope["path"][1:])
        await respond(send, b"hello", status, [(b"content-length", b"5")])

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for method, status in ((b"GET", 204), (b"GET", 304), (b"HEAD", 200)):
                client.writer.write(b"%b /%d HTTP/1.1\r\n%b\r\n" % (method, status, HOST))
                seen, fields = await client.head()
                assert seen == status
                assert fields.get("content-length") == (None if status == 204 else "5")
            client.writer.write(b"GET /200 HTTP/1.1\r\n" + CLOSE)
            assert (await client.response())[2] == b"hello"
            assert await client.reader.read() == b""

    run(main())


def test_transfer_encoding_is_the_servers(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        fields = [(b"transfer-encoding", b"chunked"), (b"content-length", b"2")]
        await respond(send, b"ok", headers=fields)

    async def main() -> None:
        _, fields, body = await ask(app, GET)
        assert "transfer-encoding" not in fields
        assert body == b"ok"

    run(main())


@pytest.mark.parametrize("size", [10_000, 20_000, 1 << 20])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bodies_of_any_size_and_type(run: Run, size: int, kind: Callable[[bytes], Any]) -> None:
    content = bytes(range(256)) * (size // 256)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": kind(content), "more_body": True})
        await send({"type": "http.response.body", "body": kind(content)})

    async def main() -> None:
        assert (await ask(app, GET))[2] == content * 2

    run(main())


def test_send_waits_while_the_client_does_not_read(run: Run) -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(400):
            await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
            sent += 1
        await send({"type": "http.response.body"})

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(GET)
            await client.reader.readuntil(b"\r\n\r\n")
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.05)
            assert sent < 300
            assert len(await client.reader.read()) > 400 * 65536
            assert sent == 400

    run(main())


def test_a_head_without_a_body_is_sent_when_the_application_waits(run: Run) -> None:
    async def main() -> None:
        for in_task in (False, True):
            go = asyncio.Event()

            async def app(
                scope: Any,
                receive: Any,
                send: Any,
                go: asyncio.Event = go,
                in_task: bool = in_task,
            ) -> None:
                start = send({"type": "http.response.start", "status": 200, "headers": []})
                await (asyncio.ensure_future(start) if in_task else start)
                await go.wait()
                await send({"type": "http.response.body", "body": b"end"})

            async with serving(app) as server, connected(server) as client:
                client.writer.write(GET)
                assert (await client.head())[0] == 200
                go.set()
                assert await client.reader.read() == b"3\r\nend\r\n0\r\n\r\n"

    run(main())


START: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b"x"}


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([{"type": "http.response.body"}], "RuntimeError"),
        ([{"type": "unknown"}], "RuntimeError"),
        ([{}], "KeyError"),
        ([{"type": "http.response.start"}], "KeyError"),
        ([{"type": "http.response.start", "status": 103}], "ValueError"),
        ([{"type": "http.response.start", "status": "200"}], "TypeError"),
        ([{**START, "headers": [("a", "b")]}], "TypeError"),
        ([{**START, "headers": [(b"a", b"b\r\nc: d")]}], "ValueError"),
        ([{**START, "headers": [(b"a b", b"c")]}], "ValueError"),
        ([{**START, "headers": [(b"content-length", b"x")]}], "ValueError"),
        ([], ""),
    ],
)
def test_an_application_that_breaks_the_rules_before_its_response(
    run: Run, messages: list[Any], error: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async def main() -> None:
        status, fields, body = await ask(app, GET)
        assert (status, body) == (500, b"Internal Server Error")
        assert fields["connection"] == "close"

    with caplog.at_level(logging.ERROR):
        run(main())
    assert error in caplog.text
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "messages",
    [
        [START],
        [START, START],
        [START, {**BODY, "more_body": True}],
        [START, {**BODY, "more_body": True}, {"type": "unknown"}],
        [{**START, "headers": [(b"content-length", b"5")]}, BODY],
        [{**START, "headers": [(b"content-length", b"5")]}, {**BODY, "body": b"123456"}],
    ],
)
def test_a_response_that_does_not_end_closes_the_connection(
    run: Run, messages: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async def main() -> None:
        async with serving(app) as server:
            answer = await conversation(server, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert not answer.endswith(b"0\r\n\r\n")
        assert b"123456" not in answer

    with caplog.at_level(logging.ERROR):
        run(main())
    assert len(caplog.records) == 1


def test_messages_after_the_response(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"done")
        assert await receive() == {"type": "http.disconnect"}
        with pytest.raises(RuntimeError, match="already completed"):
            await send(BODY)
        if scope["path"] == "/value":
            return 5  # type: ignore[return-value]

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for path in (b"/", b"/value"):
                client.writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
                assert (await client.response())[2] == b"done"

    with caplog.at_level(logging.ERROR):
        run(main())
    assert [record.message for record in caplog.records] == [
        "ASGI callable should return None, but returned '5'."
    ]


def test_a_background_task_delays_no_request(run: Run) -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"done")
        if scope["path"] == "/slow":
            await go.wait()

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for path in (b"/slow", b"/"):
                client.writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
                assert (await client.response())[2] == b"done"
            assert len(server.native.tasks) == 1
            go.set()

    run(main())


def test_the_methods_of_a_request_are_not_those_of_the_next(run: Run) -> None:
    """An application may keep them. If it does not, they go with the request."""
    kept: list[Any] = []
    gone: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/keep":
            kept.append((receive, send))
        else:
            gone.append(weakref.ref(send))
        if scope["path"] == "/use":
            for old_receive, old_send in kept:
                assert await old_receive() == {"type": "http.disconnect"}
                with pytest.raises(RuntimeError, match="already completed"):
                    await old_send(BODY)
        await respond(send, scope["path"].encode())

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for path in (b"/", b"/keep", b"/", b"/keep", b"/use", b"/"):
                client.writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
                assert (await client.response())[2] == path
            # On other loops a task ends behind its response.
            await until(lambda: not server.native.tasks)
            assert len({id(method) for pair in kept for method in pair}) == 4
            gc.collect()
            assert [reference() for reference in gone] == [None] * 4

    run(main())
