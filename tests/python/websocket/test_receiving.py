"""Receiving: cancellation, one receiver at a time, back-pressure, the order of messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from penstock import websocket

from .libraries import SERVERS, address, echo, seen


def test_cancelled_receive_loses_no_message(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as served,
            websocket.connect(address(served)) as connection,
        ):
            received: list[str | bytes] = []
            for i in range(200):
                receiving = asyncio.create_task(connection.recv())
                await asyncio.sleep(0)
                await connection.send(str(i))
                for _ in range(i % 7):
                    await asyncio.sleep(0)
                receiving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    received.append(await receiving)
            while len(received) < 200:
                received.append(await connection.recv())
            assert received == [str(i) for i in range(200)]

    run(main())


def test_second_receiver_is_refused(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as served,
            websocket.connect(address(served)) as connection,
        ):
            first = asyncio.create_task(connection.recv())
            await asyncio.sleep(0)
            with pytest.raises(websocket.ConcurrencyError, match="already waiting"):
                await connection.recv()
            await connection.send("for the first")
            assert await first == "for the first"

    run(main())


def test_receiver_that_does_not_read_stops_the_sender(run: Callable[..., Any]) -> None:
    async def main() -> None:
        release = asyncio.Event()
        count = 0

        async def slow(connection: websocket.ServerConnection) -> None:
            nonlocal count
            await release.wait()
            async for _ in connection:
                count += 1

        total = 600
        async with (
            websocket.serve(slow, "127.0.0.1", 0, compression=None) as served,
            websocket.connect(address(served), compression=None) as connection,
        ):
            sent = 0

            async def send() -> None:
                nonlocal sent
                for _ in range(total):
                    await connection.send(b"x" * 100_000)
                    sent += 1

            sending = asyncio.create_task(send())
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.2)
            assert sent < total
            release.set()
            await sending
            await connection.close()
        assert count == total

    run(main())


def test_pings_of_a_peer_that_does_not_read_are_answered_by_one_pong(
    run: Callable[..., Any],
) -> None:
    async def main() -> None:
        buffered: list[int] = []
        looked_twice = asyncio.Event()

        async def flood(connection: websocket.ServerConnection) -> None:
            assert connection.transport is not None
            while not connection._writing_paused:
                connection.write(b"x" * 100_000)
            for _ in range(2):
                assert await connection.recv() == "look"
                buffered.append(connection.transport.get_write_buffer_size())  # type: ignore[attr-defined]
            looked_twice.set()
            assert await connection.recv() == "read"

        options: Any = {"compression": None, "max_queue": None}
        async with websocket.serve(flood, "127.0.0.1", 0, **options) as served:
            connection = await websocket.connect(address(served), **options)
            assert connection.transport is not None
            connection.transport.pause_reading()
            await connection.send("look")
            pongs = [await connection.ping(str(i).ljust(125)) for i in range(1000)]
            await connection.send("look")
            await looked_twice.wait()
            assert buffered[0] == buffered[1]
            connection.transport.resume_reading()
            await asyncio.wait_for(asyncio.gather(*pongs), 20)
            await connection.send("read")
            await connection.wait_closed()

    run(main())


def test_messages_before_the_close_are_received_after_it(run: Callable[..., Any]) -> None:
    async def burst(connection: websocket.ServerConnection) -> None:
        for i in range(10):
            await connection.send(str(i))

    async def main() -> None:
        async with websocket.serve(burst, "127.0.0.1", 0) as served:
            connection = await websocket.connect(address(served))
            await connection.wait_closed()
            assert [message async for message in connection] == [str(i) for i in range(10)]
            with pytest.raises(websocket.ConnectionClosedOK):
                await connection.recv()

    run(main())


def test_closing_wakes_the_receiver_and_the_sender(run: Callable[..., Any]) -> None:
    async def ignore(connection: websocket.ServerConnection) -> None:
        await connection.wait_closed()

    async def main() -> None:
        async with websocket.serve(ignore, "127.0.0.1", 0, compression=None) as server:
            connection = await websocket.connect(
                address(server), compression=None, close_timeout=0.05
            )
            receiving = asyncio.create_task(connection.recv())

            async def flood() -> None:
                while True:
                    await connection.send(b"x" * 1_000_000)

            sending = asyncio.create_task(flood())
            await asyncio.sleep(0.05)
            await connection.close()
            for task in (receiving, sending):
                with pytest.raises(websocket.ConnectionClosed):
                    await task

    run(main())


@pytest.mark.parametrize("library", list(SERVERS))
def test_send_that_waits_for_a_peer_that_leaves_raises(
    run: Callable[..., Any], library: str
) -> None:
    async def main() -> None:
        started = asyncio.Event()
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        async def flood(connection: Any) -> None:
            started.set()
            sent = await asyncio.gather(connection.send(b"x" * 30_000_000), return_exceptions=True)
            ended.set_result(sent[0])

        async with SERVERS[library](flood, "127.0.0.1", 0, compression=None) as server:
            connection = await websocket.connect(address(server), compression=None, max_size=None)
            assert connection.transport is not None
            connection.transport.pause_reading()
            await started.wait()
            await asyncio.sleep(0.01)
            connection.transport.abort()
            end = await ended
            assert end is not None
            assert seen(end) == ("ConnectionClosedError", None, None)

    run(main())


def test_close_with_a_full_queue_ends_normally(run: Callable[..., Any]) -> None:
    sent: asyncio.Event

    async def burst(connection: websocket.ServerConnection) -> None:
        for i in range(100):
            await connection.send(str(i))
        sent.set()
        await connection.wait_closed()

    async def main() -> None:
        nonlocal sent
        sent = asyncio.Event()
        async with websocket.serve(burst, "127.0.0.1", 0) as server:
            connection = await websocket.connect(address(server))
            await sent.wait()
            await asyncio.sleep(0.05)
            await connection.close()
            assert connection.close_code == 1000
            first = [message async for message in connection][:16]
            assert first == [str(i) for i in range(16)]

    run(main())
