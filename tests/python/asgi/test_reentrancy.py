"""Code of the program in the middle of a step of the server: it may end what the step works on."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import h2.connection
import h2.events
import pytest

from penstock import asgi

from .http2_client import request_fields, speaking_http2, until
from .support import HOST, connected, echo, hello, respond, serving

Run = Callable[..., Any]
FORWARDED = b"X-Forwarded-For: 203.0.113.9\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + FORWARDED + b"\r\n"
START: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": []}


def lose(server: asgi.Server) -> None:
    """Lose all connections at once, as a transport of the program's may do in any call of it."""
    for connection in server.native.connections():
        transport = connection.transport
        connection.connection_lost(None)
        transport.abort()


class Proxies:
    """In the place of what corrects scopes by the fields of a proxy."""

    def __init__(self) -> None:
        self.called = 0
        self.hook: Callable[[], object] = lambda: None

    def __call__(self, scope: Any) -> None:
        self.called += 1
        self.hook()


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Proxies:
    made = Proxies()
    monkeypatch.setattr("penstock.asgi._server.ProxyHeaders", lambda trusted: made)
    return made


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("http2", [False, True])
def test_a_connection_lost_while_its_scope_is_made(
    run: Run, proxies: Proxies, before: int, *, http2: bool
) -> None:
    """The application is not called: nobody would tell it that the client has gone."""
    called = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal called
        called += 1
        await respond(send)

    async def ask_by_http1(server: asgi.Server) -> None:
        async with connected(server) as client:
            for _ in range(before):
                client.writer.write(GET)
                await client.response()
            proxies.hook = lambda: lose(server)
            client.writer.write(GET)
            with contextlib.suppress(ConnectionError):
                assert await client.reader.read() == b""

    async def ask_by_http2(server: asgi.Server) -> None:
        fields = request_fields(b"/", b"GET", (b"x-forwarded-for", b"203.0.113.9"))
        async with speaking_http2(server) as client:
            for _ in range(before):
                await client.answer(client.ask(fields))
            proxies.hook = lambda: lose(server)
            client.ask(fields)
            await client.until_closed()

    async def main() -> None:
        options: dict[str, Any] = {"proxy_headers": True, "timeout_graceful_shutdown": 0}
        async with serving(app, http2=http2, **options) as server:
            await (ask_by_http2 if http2 else ask_by_http1)(server)
            assert not server.tasks

    run(main())
    assert (called, proxies.called) == (before, before + 1)


def test_a_scope_that_cannot_be_made_is_not_refused_for_another_reason(
    run: Run, proxies: Proxies
) -> None:
    """A failure met a server that was full, which answered 503 with the exception raised."""
    seen: list[Any] = []

    def fail() -> None:
        raise RuntimeError("no scope")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(context.get("exception")))
        options: dict[str, Any] = {"proxy_headers": True, "limit_concurrency": 2}
        async with serving(hello, **options) as server, connected(server) as client:
            for _ in range(2):
                client.writer.write(GET)
                assert (await client.response())[0] == 200
            async with connected(server):
                await until(lambda: server.open_connections == 2)
                proxies.hook = fail
                client.writer.write(GET)
                with contextlib.suppress(ConnectionError):
                    assert await client.reader.read() == b""

    run(main())
    assert [str(error) for error in seen] == ["no scope"]


class Number:
    def __init__(self, hook: Callable[[], object]) -> None:
        self._hook = hook

    def __index__(self) -> int:
        self._hook()
        return 200


class Flag:
    def __init__(self, hook: Callable[[], object]) -> None:
        self._hook = hook

    def __bool__(self) -> bool:
        self._hook()
        return True


class Exporter:
    def __init__(self, hook: Callable[[], object]) -> None:
        self._hook = hook

    def __buffer__(self, flags: int) -> memoryview:
        self._hook()
        return memoryview(b"x")


def pairs(hook: Callable[[], object]) -> Iterator[tuple[bytes, bytes]]:
    yield (b"x-first", b"1")
    hook()
    yield (b"x-second", b"2")


def links(hook: Callable[[], object]) -> Iterator[bytes]:
    hook()
    yield b"</style.css>; rel=preload"


BODY = "http.response.body"
MESSAGES: dict[str, Callable[[Callable[[], object]], dict[str, Any]]] = {
    "status": lambda hook: {**START, "status": Number(hook)},
    "headers": lambda hook: {**START, "headers": pairs(hook)},
    "links": lambda hook: {"type": "http.response.early_hint", "links": links(hook)},
    "flag": lambda hook: {"type": BODY, "body": b"x", "more_body": Flag(hook)},
    "buffer": lambda hook: {"type": BODY, "body": Exporter(hook)},
}


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("http2", [False, True])
def test_a_connection_lost_while_a_message_is_read(run: Run, kind: str, *, http2: bool) -> None:
    if kind == "buffer" and sys.version_info < (3, 12):
        pytest.skip("__buffer__ of Python classes came with CPython 3.12")

    async def main() -> None:
        seen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            message = MESSAGES[kind](lambda: lose(server))
            try:
                if message["type"] == BODY:
                    await send(START)
                await send(message)
            except BaseException as error:
                seen.set_result(error)
                raise
            seen.set_result(None)

        async with serving(app, http2=http2) as server:
            if http2:
                async with speaking_http2(server) as client:
                    client.ask()
                    error = await seen
            else:
                async with connected(server) as other:
                    other.writer.write(GET)
                    error = await seen
        assert isinstance(error, asgi.ClientDisconnected)

    run(main())


def test_a_response_that_begins_while_its_headers_are_read(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        own = {**START, "status": 201, "headers": [(b"x-own", b"1")]}
        with pytest.raises(RuntimeError, match=r"got 'http\.response\.start'"):
            await send({**START, "headers": pairs(lambda: send(own))})
        await send({"type": BODY, "body": b"hello"})

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(2):
                client.writer.write(GET)
                status, fields, body = await client.response()
                assert (status, fields["x-own"], body) == (201, "1", b"hello")
                assert "x-first" not in fields

    run(main())


def test_a_response_that_is_completed_while_its_body_is_read(run: Run) -> None:
    """The part is not sent: it would stand in front of the next response."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({**START, "headers": [(b"content-length", b"5")]})
        flag = Flag(lambda: send({"type": BODY, "body": b"hello"}))
        with pytest.raises(RuntimeError, match="was completed while"):
            await send({"type": BODY, "body": b"", "more_body": flag})

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(2):
                client.writer.write(GET)
                assert (await client.response())[2] == b"hello"

    run(main())


class Immediate(asyncio.Transport):
    """A transport of the program's. Its peer answers before a write returns."""

    def __init__(self, server: asgi.Server, answer: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self.connection = server._connect()
        self.written = bytearray()
        self.changed = asyncio.Event()
        self._answer = answer
        self.connection.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        self.written += data
        self.changed.set()
        if answer := self._answer(bytes(data)):
            self.connection.data_received(answer)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that is written."""
        while not condition():
            await self.changed.wait()
            self.changed.clear()

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """The same."""

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    abort = close


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"])
def test_a_body_that_comes_while_it_is_asked_for(run: Run, first: bytes) -> None:
    """Behind another request, the application begins inside the call that parses."""

    async def main() -> None:
        def answer(written: bytes) -> bytes:
            return b"body" if b"100 Continue" in written else b""

        async with serving(echo) as server:
            client = Immediate(server, answer)
            head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n" + HOST
            client.connection.data_received(first + head + b"\r\n")
            await client.until(lambda: client.written.endswith(b"\r\n\r\nbody"))

    run(main())


def test_frames_that_come_while_others_are_written(run: Run) -> None:
    """They are taken in their order, also if nothing follows them."""
    client = h2.connection.H2Connection()
    client.initiate_connection()
    client.send_headers(1, request_fields(b"/1"), end_stream=True)
    first = client.data_to_send()
    client.send_headers(3, request_fields(b"/3", b"POST"))
    client.send_data(3, b"body", end_stream=True)
    second = client.data_to_send()
    bodies: defaultdict[int, bytes] = defaultdict(bytes)

    async def main() -> None:
        parts = [second]

        def answer(written: bytes) -> bytes:
            for event in client.receive_data(written):
                if isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id or 0] += event.data
            return parts.pop() if parts else b""

        async with serving(echo, http2=True) as server:
            transport = Immediate(server, answer)
            transport.connection.data_received(first)
            await transport.until(lambda: 3 in bodies)

    run(main())
    assert bodies[3] == b"body"
