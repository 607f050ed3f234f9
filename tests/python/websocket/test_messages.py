"""`send(text=)`, `recv(decode=)`, `recv_streaming`, and queues with two limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from penstock import websocket

from .libraries import CLIENTS, SERVERS, address, echo, until
from .raw_peers import accept, serving

ROLES = [(client, server) for client in CLIENTS for server in SERVERS]


async def fragments(*parts: Any) -> AsyncIterator[Any]:
    for part in parts:
        await asyncio.sleep(0)
        yield part


CASES: list[tuple[Any, bool | None, str | bytes]] = [
    ("text", None, "text"),
    ("Zoë", False, "Zoë".encode()),
    ("Zoë".encode(), True, "Zoë"),
    (bytearray(b"bytes"), None, b"bytes"),
    (memoryview(b"as text"), True, "as text"),
    (["a", "b"], False, b"ab"),
    ([b"a", b"b"], True, "ab"),
]


@pytest.mark.parametrize(("client", "server"), ROLES)
def test_a_message_may_be_sent_and_received_as_the_other_kind(
    run: Callable[..., Any], client: str, server: str
) -> None:
    async def main() -> None:
        async with (
            SERVERS[server](echo, "127.0.0.1", 0) as served,
            CLIENTS[client](address(served)) as connection,
        ):
            for message, text, received in CASES:
                await connection.send(message, text=text)
                assert await connection.recv() == received
            await connection.send(fragments(b"x", b"y"), text=True)
            assert await connection.recv() == "xy"
            for decode, received in ((False, "ä".encode()), (True, "ä"), (None, "ä")):
                await connection.send("ä")
                assert await connection.recv(decode=decode) == received
                await connection.send("ä", text=False)
                assert await connection.recv(decode) == (received if decode else "ä".encode())

    run(main())


@pytest.mark.parametrize(("client", "server"), ROLES)
def test_binary_message_that_is_no_text_ends_the_connection(
    run: Callable[..., Any], client: str, server: str
) -> None:
    async def main() -> None:
        async with SERVERS[server](echo, "127.0.0.1", 0) as served:
            connection = await CLIENTS[client](address(served))
            await connection.send(b"\xff")
            with pytest.raises(Exception) as end:
                await connection.recv(decode=True)
            assert type(end.value).__name__ == "ConnectionClosedError"
            assert end.value.sent.code == 1007  # type: ignore[attr-defined]
            assert isinstance(end.value.__cause__, UnicodeDecodeError)

    run(main())


def test_wrong_arguments_are_refused(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as served,
            websocket.connect(address(served)) as connection,
        ):
            call: Any = connection
            for wrong in (
                lambda: call.send(),
                lambda: call.send("a", "b"),
                lambda: call.send("a", kind=1),
                lambda: call.write("a", texts=True),
                lambda: call.recv(True, True),
                lambda: call.recv(decoded=True),
            ):
                with pytest.raises(TypeError):
                    wrong()
            await connection.send(message="named")
            assert await connection.recv() == "named"

    run(main())


async def parts_of(connection: Any, decode: bool | None = None) -> list[Any]:
    return [part async for part in connection.recv_streaming(decode)]


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_a_message_is_received_in_parts_before_it_ends(
    run: Callable[..., Any], compression: str | None
) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def tell(connection: websocket.ServerConnection) -> None:
            async def text() -> AsyncIterator[str]:
                yield "first ä"
                await go_on.wait()
                yield " last"

            await connection.send(text())
            await connection.send(b"whole" * 100)
            await connection.recv()

        async with (
            websocket.serve(tell, "127.0.0.1", 0, compression=compression) as served,
            websocket.connect(address(served), compression=compression) as connection,
        ):
            received = ""
            async for part in connection.recv_streaming():
                assert isinstance(part, str)
                received += part
                if received == "first ä":
                    go_on.set()  # the message has not ended
            assert received == "first ä last"
            assert b"".join(await parts_of(connection)) == b"whole" * 100
            await connection.send("end")

    run(main())


def test_text_in_parts_may_be_split_inside_of_a_character(run: Callable[..., Any]) -> None:
    data = "äöü€😀".encode()

    async def main() -> None:
        async def tell(connection: Any) -> None:
            for _ in range(2):
                await connection.send([data[i : i + 1] for i in range(len(data))], text=True)
            await connection.recv()

        async with (
            websocket.serve(tell, "127.0.0.1", 0) as served,
            websocket.connect(address(served)) as connection,
        ):
            assert "".join(await parts_of(connection)) == data.decode()
            assert b"".join(await parts_of(connection, decode=False)) == data
            await connection.send("end")

    run(main())


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_parts_that_exceed_the_largest_message_end_the_connection(
    run: Callable[..., Any], compression: str | None
) -> None:
    async def main() -> None:
        async def tell(connection: Any) -> None:
            await connection.send(b"a" * 100_000)
            await connection.wait_closed()

        async with websocket.serve(tell, "127.0.0.1", 0, compression=compression) as served:
            connection = await websocket.connect(
                address(served), max_size=50_000, compression=compression
            )
            with pytest.raises(websocket.ConnectionClosedError) as end:
                await parts_of(connection)
            assert end.value.sent is not None
            assert end.value.sent.code == websocket.CloseCode.MESSAGE_TOO_BIG

    run(main())


def test_unfinished_parts_refuse_other_receives(run: Callable[..., Any]) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def slowly() -> AsyncIterator[str]:
            yield "a"
            await go_on.wait()
            yield "b"

        async def tell(connection: Any) -> None:
            await connection.send(slowly())
            await connection.send("next")
            await connection.recv()

        async with (
            websocket.serve(tell, "127.0.0.1", 0) as served,
            websocket.connect(address(served)) as connection,
        ):
            parts = connection.recv_streaming()
            await anext(parts)
            with pytest.raises(websocket.ConcurrencyError):
                await connection.recv()
            with pytest.raises(websocket.ConcurrencyError):
                await anext(connection.recv_streaming())
            with pytest.raises(websocket.ConcurrencyError):
                await connection.for_each(print)
            go_on.set()
            assert "".join([part async for part in parts]) == "b"
            assert await connection.recv() == "next"
            # Cancelled before its first part, it changes nothing.
            task = asyncio.create_task(parts_of(connection))
            await asyncio.sleep(0)
            with pytest.raises(websocket.ConcurrencyError):
                await connection.recv()
            task.cancel()
            await asyncio.wait([task])
            await connection.send("end")
            with pytest.raises(websocket.ConnectionClosedOK):
                await parts_of(connection)

    run(main())


@pytest.mark.parametrize("limit", [(8, 6), (8, None), (None, 2), 8])
def test_reading_goes_on_at_the_lower_limit_of_a_pair(run: Callable[..., Any], limit: Any) -> None:
    low = {(8, 6): 6}.get(limit, 2)

    async def main() -> None:
        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await accept(reader, writer)
            await reader.readexactly(6)  # an empty message
            writer.write(40 * b"\x81\x01a")
            await reader.read()

        async with (
            serving(flood) as port,
            websocket.connect(
                f"ws://127.0.0.1:{port}", max_queue=limit, write_limit=(4096, 0)
            ) as connection,
        ):
            await connection.send("")
            await until(lambda: connection._reading_paused)
            left = 40
            while connection._reading_paused and left:
                await connection.recv()
                left -= 1
            assert left == low
            assert connection.transport is not None
            connection.transport.abort()

    run(main())


def test_a_message_that_is_cancelled_behind_its_first_fragment_ends_the_connection(
    run: Callable[..., Any],
) -> None:
    """The peer would take the next message for the rest of it."""

    async def main() -> None:
        ended = asyncio.Event()

        async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await accept(reader, writer)
            await ended.wait()

        async with serving(read_nothing) as port:
            connection = await websocket.connect(f"ws://127.0.0.1:{port}", close_timeout=0.01)
            sending = asyncio.ensure_future(connection.send([bytes(50_000_000), b"end"]))
            await until(lambda: connection._drain_waiters)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert connection.close_sent is not None
            assert connection.close_sent.code == 1011
            with pytest.raises(websocket.ConnectionClosedError):
                await connection.send("next")
            ended.set()

    run(main())
