"""Closing and failing connections, judged by what `websockets` does in the same conversation."""

from __future__ import annotations

import array
import asyncio
import base64
import hashlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import websocket

from .libraries import CLIENTS, SERVERS, address, seen

Conversation = Callable[[Any], Awaitable[object]]


async def hold(connection: Any) -> object:
    """Receive until the end, and return how it ended."""
    messages = []
    try:
        while True:
            messages.append(await connection.recv())
    except Exception as exception:
        return messages, seen(exception)


async def end_of_iteration(connection: Any) -> object:
    try:
        return [message async for message in connection]
    except Exception as exception:
        return seen(exception)


async def close_normally(connection: Any) -> object:
    await connection.send("last")
    await connection.close(1000, "done")
    return (await hold(connection), connection.close_code, connection.close_reason)


async def close_with_own_code(connection: Any) -> object:
    await connection.close(3456, "grüße")
    await connection.close(1000)
    return (await hold(connection), connection.close_code)


async def send_after_close(connection: Any) -> object:
    await connection.close(1001)
    try:
        await connection.send("late")
    except Exception as exception:
        return seen(exception)
    return None


async def ping_after_close(connection: Any) -> object:
    await connection.close()
    try:
        await connection.ping()
    except Exception as exception:
        return seen(exception)
    return None


async def send_while_closing(connection: Any) -> object:
    ends = []
    closing = asyncio.create_task(connection.close(1001))
    await asyncio.sleep(0)
    assert connection.state == websocket.State.CLOSING
    for late in (connection.send("late"), connection.ping(), connection.pong()):
        try:
            await late
        except Exception as exception:
            ends.append(seen(exception))
    await closing
    return ends


async def oversized(connection: Any) -> object:
    await connection.send("x" * 3000)
    return await hold(connection)


async def oversized_in_fragments(connection: Any) -> object:
    await connection.send(["x" * 600, "x" * 600, "x" * 600])
    return await hold(connection)


async def oversized_when_decompressed(connection: Any) -> object:
    await connection.send("x" * 100_000)
    return await hold(connection)


async def ping_and_pong(connection: Any) -> object:
    first = await connection.ping(b"1")
    second = await connection.ping("2")
    await second
    await connection.pong(b"unasked")
    await connection.close()
    return first.done()


async def leave_without_close(connection: Any) -> object:
    connection.transport.abort()
    return await hold(connection)


async def ping_with_much(connection: Any) -> object:
    for size in (63, 64, 125):
        await (await connection.ping(b"x" * size))
    await connection.pong(b"x" * 125)
    await connection.close()
    return await hold(connection)


async def close_with_long_reason(connection: Any) -> object:
    await connection.close(3000, "é" * 61)
    return await hold(connection)


async def start_fragments_until_the_end(connection: Any) -> asyncio.Task[None]:
    """Start to send a message whose second fragment follows the end of the connection."""
    started = asyncio.Event()

    async def parts() -> Any:
        yield "one"
        started.set()
        await connection.wait_closed()
        yield "two"

    sending = asyncio.create_task(connection.send(parts()))
    await started.wait()
    return sending


async def close_during_fragments(connection: Any) -> object:
    sending = await start_fragments_until_the_end(connection)
    await connection.close()
    try:
        await sending
    except Exception as exception:
        return seen(exception)
    return None


async def last_fragment_after_close(connection: Any) -> object:
    async def parts() -> Any:
        yield "one"
        await connection.wait_closed()

    try:
        await connection.send(parts())
    except Exception as exception:
        return seen(exception)
    return None


async def close_when_received_from(connection: Any) -> object:
    while connection.state == websocket.State.OPEN:
        await asyncio.sleep(0.01)
        await connection.close(1000, "enough")
    return None


async def wrong_types(connection: Any) -> object:
    names = []
    for message in (1, None, {"a": 1}, [b"a", "b"]):
        try:
            await connection.send(message)
        except Exception as exception:
            names.append(type(exception).__name__)
    await connection.wait_closed()
    return (names, await hold(connection))


async def ignore(connection: Any) -> None:
    """Wait for the end: `websockets` alone refuses a close frame between two fragments."""
    await connection.wait_closed()


CONVERSATIONS: list[tuple[Conversation, Conversation]] = [
    (close_normally, hold),
    (close_normally, end_of_iteration),
    (close_with_own_code, hold),
    (close_with_own_code, end_of_iteration),
    (hold, close_normally),
    (end_of_iteration, close_normally),
    (hold, close_with_own_code),
    (send_after_close, hold),
    (ping_after_close, hold),
    (send_while_closing, hold),
    (hold, send_while_closing),
    (oversized, hold),
    (hold, oversized),
    (oversized_in_fragments, hold),
    (ping_and_pong, hold),
    (hold, ping_and_pong),
    (leave_without_close, hold),
    (hold, leave_without_close),
    (close_during_fragments, ignore),
    (last_fragment_after_close, close_when_received_from),
    (wrong_types, ignore),
]


async def converse(
    library: tuple[str, str], ours: Conversation, theirs: Conversation, **options: Any
) -> tuple[object, object]:
    """Return what the client's and the server's end saw."""
    client, server = library
    ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    async def handler(connection: Any) -> None:
        ended.set_result(await theirs(connection))

    options = {"max_size": 1000, "compression": None, **options}
    async with SERVERS[server](handler, "127.0.0.1", 0, **options) as served:
        connection = await CLIENTS[client](address(served), **options)
        result = await ours(connection)
        await connection.close()
        return result, await ended


@pytest.mark.parametrize(
    "roles", [("penstock", "penstock"), ("penstock", "websockets"), ("websockets", "penstock")]
)
@pytest.mark.parametrize(
    ("ours", "theirs"), CONVERSATIONS, ids=lambda conversation: conversation.__name__
)
def test_ends_of_a_conversation_see_what_those_of_websockets_see(
    run: Callable[..., Any], roles: tuple[str, str], ours: Conversation, theirs: Conversation
) -> None:
    async def main() -> None:
        expected = await converse(("websockets", "websockets"), ours, theirs)
        assert await converse(roles, ours, theirs) == expected

    run(main())


@pytest.mark.parametrize(
    "roles", [("penstock", "penstock"), ("penstock", "websockets"), ("websockets", "penstock")]
)
@pytest.mark.parametrize("ours", [ping_with_much, close_with_long_reason])
def test_control_frames_are_not_compressed(
    run: Callable[..., Any], roles: tuple[str, str], ours: Conversation
) -> None:
    async def main() -> None:
        expected = await converse(("websockets", "websockets"), ours, hold, compression="deflate")
        assert await converse(roles, ours, hold, compression="deflate") == expected

    run(main())


def test_message_that_is_oversized_when_decompressed_fails_the_connection(
    run: Callable[..., Any],
) -> None:
    async def main() -> None:
        for roles in (("penstock", "penstock"), ("websockets", "penstock")):
            ours, theirs = await converse(
                roles, oversized_when_decompressed, hold, compression="deflate"
            )
            assert ours == ([], ("ConnectionClosedError", (1009, True), 1009))
            assert theirs[1][2] == 1009  # type: ignore[index]

    run(main())


def test_handler_that_raises_closes_with_1011(
    run: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(connection: Any) -> None:
        raise ValueError("broken")

    async def main() -> None:
        async with websocket.serve(handler, "127.0.0.1", 0) as served:
            connection = await websocket.connect(address(served))
            with pytest.raises(websocket.ConnectionClosedError) as caught:
                await connection.recv()
            assert caught.value.rcvd == websocket.Close(1011, "")

    run(main())
    assert "connection handler failed" in caplog.text


def test_close_of_the_server_closes_connections_with_1001(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with websocket.serve(hold, "127.0.0.1", 0) as served:
            connection = await websocket.connect(address(served))
            assert len(served.connections) == 1
        assert not served.connections
        assert [message async for message in connection] == []
        assert connection.close_code == 1001
        with pytest.raises(OSError):
            await websocket.connect(address_before)

    async def with_address() -> None:
        nonlocal address_before
        server = await websocket.serve(hold, "127.0.0.1", 0)
        address_before = address(server)
        server.close()
        await server.wait_closed()

    address_before = ""
    run(with_address())
    run(main())


def test_unanswered_ping_fails_the_connection(run: Callable[..., Any]) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = websocket.Headers(
            [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")[1:-2]]  # type: ignore[misc]
        )
        key = fields["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: WEBSOCKET\r\nconnection: upgrade\r\n"
            f"sec-websocket-accept: {accept}\r\n\r\n".encode()
        )
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        connection = await websocket.connect(
            address(server), ping_interval=0.05, ping_timeout=0.05, close_timeout=0.5
        )
        with pytest.raises(websocket.ConnectionClosedError) as caught:
            await connection.recv()
        assert caught.value.sent == websocket.Close(1011, "keepalive ping timeout")
        await connection.wait_closed()
        server.close()
        await server.wait_closed()

    run(main())


def test_lost_connection_stays_closed_when_a_message_in_fragments_ends(
    run: Callable[..., Any],
) -> None:
    async def main() -> None:
        async with websocket.serve(hold, "127.0.0.1", 0) as served:
            connection = await websocket.connect(address(served))
            sending = await start_fragments_until_the_end(connection)
            assert connection.transport is not None
            connection.transport.abort()
            with pytest.raises(websocket.ConnectionClosedError) as end:
                await sending
            assert seen(end.value) == ("ConnectionClosedError", None, None)
            assert connection.state is websocket.State.CLOSED
            assert connection.close_code == 1006

    run(main())


def test_peer_that_closes_and_does_not_read_is_disconnected(run: Callable[..., Any]) -> None:
    async def main() -> None:
        ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        async def flood(connection: websocket.ServerConnection) -> None:
            connection.write(b"x" * 30_000_000)
            await connection.wait_closed()
            ended.set_result(connection.close_code)

        options: Any = {"compression": None, "close_timeout": 0.05}
        async with websocket.serve(flood, "127.0.0.1", 0, **options) as served:
            connection = await websocket.connect(
                address(served), max_size=None, compression=None, close_timeout=None
            )
            assert connection.transport is not None
            connection.transport.pause_reading()
            closing = asyncio.create_task(connection.close())
            assert await ended == 1000
            connection.transport.abort()
            await closing

    run(main())


def test_answered_pings_keep_the_connection(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(hold, "127.0.0.1", 0) as served,
            websocket.connect(address(served), ping_interval=0.01, ping_timeout=20) as connection,
        ):
            keepalive = connection.loop.create_future()
            pong = connection._on_pong
            connection._on_pong = lambda *a: (pong(*a), keepalive.set_result(None))  # type: ignore[method-assign]
            await keepalive
            assert connection.latency > 0
            assert connection.state is websocket.State.OPEN

    run(main())


@pytest.mark.parametrize("library", list(SERVERS))
def test_timeout_of_a_close_is_the_cause(run: Callable[..., Any], library: str) -> None:
    async def main() -> None:
        causes: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        async def leave(connection: Any) -> None:
            await connection.recv()
            await connection.close()
            try:
                await connection.recv()
            except Exception as end:
                causes.set_result(end.__cause__)

        async with SERVERS[library](leave, "127.0.0.1", 0, close_timeout=0.05) as served:
            connection = await websocket.connect(address(served))
            assert connection.transport is not None
            connection.transport.pause_reading()
            await connection.send("leave")
            assert isinstance(await causes, TimeoutError)
            connection.transport.abort()
            await connection.wait_closed()

    run(main())


def test_buffer_of_any_type_waits_for_a_message_in_fragments(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async def send_back(connection: Any) -> None:
            async for message in connection:
                await connection.send(message)

        async with (
            websocket.serve(send_back, "127.0.0.1", 0) as served,
            websocket.connect(address(served)) as connection,
        ):
            started, release = asyncio.Event(), asyncio.Event()

            async def parts() -> Any:
                yield array.array("B", b"one")
                started.set()
                await release.wait()

            sending = asyncio.create_task(connection.send(parts()))  # type: ignore[arg-type]
            await started.wait()
            waiting = asyncio.create_task(connection.send(array.array("B", b"two")))  # type: ignore[arg-type]
            with pytest.raises(websocket.ConcurrencyError):
                connection.write(array.array("B", b"three"))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            release.set()
            await asyncio.gather(sending, waiting)
            assert [await connection.recv() for _ in range(2)] == [b"one", b"two"]

    run(main())


def test_two_pings_with_one_payload_are_refused(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(hold, "127.0.0.1", 0) as served,
            websocket.connect(address(served)) as connection,
        ):
            pong = await connection.ping("same")
            with pytest.raises(websocket.ConcurrencyError, match="same data"):
                await connection.ping("same")
            await pong
            await connection.ping("same")

    run(main())


def test_payload_of_a_ping_is_limited(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(hold, "127.0.0.1", 0) as served,
            websocket.connect(address(served)) as connection,
        ):
            with pytest.raises(ValueError, match="126 bytes"):
                await connection.ping(b"x" * 126)
            for payload in ([], 5, [1, 2]):
                with pytest.raises(TypeError, match="bytes-like"):
                    await connection.ping(payload)  # type: ignore[arg-type]
                with pytest.raises(TypeError, match="bytes-like"):
                    await connection.pong(payload)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="close code 1005"):
                await connection.close(1005)

    run(main())


class Closing:
    """A flag, or a buffer, whose code closes the connection that it is sent on."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._closing: Any = None
        self.written = 0

    def _close(self) -> None:
        if self._closing is None:
            self._closing = self._connection.close()
            self._closing.send(None)  # up to its wait for the peer
            self.written = self._connection._written

    def __bool__(self) -> bool:
        self._close()
        return False

    def __buffer__(self, flags: int) -> memoryview:
        self._close()
        return memoryview(b"late")


SENDING: dict[str, Callable[[Any, Any], Any]] = {
    "send, flag": lambda connection, closing: connection.send(b"late", text=closing),
    "write, flag": lambda connection, closing: connection.write(b"late", text=closing),
    "send, buffer": lambda connection, closing: connection.send(closing),
    "write, buffer": lambda connection, closing: connection.write(closing),
    "send, fragment": lambda connection, closing: connection.send([b"first", closing]),
}


@pytest.mark.parametrize("how", SENDING)
def test_nothing_is_sent_behind_a_close_frame(run: Callable[..., Any], how: str) -> None:
    """The code of an argument may have sent it."""
    if "flag" not in how and sys.version_info < (3, 12):
        pytest.skip("__buffer__ of Python classes came with CPython 3.12")

    async def main() -> None:
        async with websocket.serve(hold, "127.0.0.1", 0) as served:
            connection = await websocket.connect(address(served))
            closing = Closing(connection)
            with pytest.raises(websocket.ConnectionClosed):
                await SENDING[how](connection, closing)
            assert connection._written == closing.written > 0
            await connection.wait_closed()

    run(main())
