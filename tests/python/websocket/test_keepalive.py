"""Keepalive: when pings are sent, and what counts as life."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from penstock import websocket

from .libraries import address, echo, until
from .raw_peers import accept, serving


def test_pings_are_sent_at_the_interval_while_one_is_unanswered(run: Callable[..., Any]) -> None:
    async def main() -> None:
        pinged = asyncio.Event()

        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await accept(reader, writer)
            for _ in range(5):  # each has 4 bytes and a mask
                assert (await reader.readexactly(10))[:2] == b"\x89\x84"
            pinged.set()
            await reader.read()

        async with serving(count) as port:
            # With a ping in each time-out, the second one would come after a minute.
            connection = await websocket.connect(
                f"ws://127.0.0.1:{port}", ping_interval=0.02, ping_timeout=60, close_timeout=0
            )
            await pinged.wait()
            assert len(connection._pings) == 1
            connection.transport.abort()

    run(main())


def test_peer_that_sends_without_a_pong_is_alive(run: Callable[..., Any]) -> None:
    """Its pong waits behind a large frame, whose bytes arrive slowly."""
    size, step = 200, 10

    async def main() -> None:
        async def send_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await accept(reader, writer)
            writer.write(b"\x82\x7e" + size.to_bytes(2, "big"))
            for _ in range(size // step):
                await reader.readexactly(10)  # each ping lets it send a little more
                writer.write(bytes(step))
            await reader.read()

        async with serving(send_slowly) as port:
            connection = await websocket.connect(
                f"ws://127.0.0.1:{port}", ping_interval=0.02, ping_timeout=0.2, close_timeout=0
            )
            assert await connection.recv() == bytes(size)
            connection.transport.abort()

    run(main())


def test_peer_is_alive_while_reading_is_paused(run: Callable[..., Any]) -> None:
    """A handler that is slower than its client leaves the pong unread."""

    async def main() -> None:
        async def flood(connection: websocket.ServerConnection) -> None:
            for i in range(60):
                await connection.send(str(i) + " " * 200_000)
            await connection.recv()

        options: Any = {"ping_interval": 0.02, "ping_timeout": 0.04, "max_queue": 2}
        async with websocket.serve(flood, "127.0.0.1", 0, ping_interval=None) as server:
            uri = address(server)
            async with websocket.connect(uri, **options) as connection:
                await until(lambda: connection._reading_paused)
                timer = connection._keepalive
                assert timer is not None
                for _ in range(4):  # time-outs that have passed
                    due = timer._due
                    await until(lambda due=due: timer._due > due)
                assert connection.state is websocket.State.OPEN
                for i in range(60):
                    message = await connection.recv()
                    assert isinstance(message, str)
                    assert message.split()[0] == str(i)

    run(main())


def test_reading_that_goes_on_has_its_turn_before_the_next_look(run: Callable[..., Any]) -> None:
    """The task that makes room, and the timer, may run in one iteration of the loop."""

    async def main() -> None:
        async def send(connection: websocket.ServerConnection) -> None:
            for _ in range(6):
                await connection.send("message")
            await connection.wait_closed()

        options: Any = {"ping_interval": 60, "ping_timeout": 60, "max_queue": (2, 1)}
        async with (
            websocket.serve(send, "127.0.0.1", 0) as server,
            websocket.connect(address(server), **options) as connection,
        ):
            await until(lambda: connection._reading_paused)
            timer = connection._keepalive
            assert timer is not None
            timer._due = timer._next_ping = 0.0
            timer._look()
            assert timer._silent_since is not None
            timer._silent_since -= 60  # the time-out has passed, without a step of the loop
            while connection._reading_paused:
                await connection.recv()
            timer._look()
            assert connection.state is websocket.State.OPEN
            assert await connection.recv() == "message"

    run(main())


@pytest.mark.parametrize("name", ["ping_interval", "ping_timeout", "close_timeout", "open_timeout"])
@pytest.mark.parametrize("value", [-1, float("nan"), "1"])
def test_time_that_is_none_is_refused(run: Callable[..., Any], name: str, value: Any) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match=f"{name} must be a number of seconds"):
            websocket.connect("ws://127.0.0.1/", **{name: value})
        with pytest.raises(ValueError, match=f"{name} must be a number of seconds"):
            await websocket.serve(echo, "127.0.0.1", 0, **{name: value})

    run(main())


@pytest.mark.parametrize("also", ["pings", "messages"])
def test_peer_that_sends_and_never_reads_does_not_keep_sends_waiting(
    run: Callable[..., Any], also: str
) -> None:
    frame = b"\x89\x7d" + b"p" * 125 if also == "pings" else b"\x82\x7d" + b"m" * 125

    async def main() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await accept(reader, writer)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(frame * 20)
                    await writer.drain()
                    await asyncio.sleep(0.01)

        async with serving(talk) as port:
            connection = await websocket.connect(
                f"ws://127.0.0.1:{port}", ping_interval=0.05, ping_timeout=0.2, close_timeout=0.05
            )
            with pytest.raises(websocket.ConnectionClosedError) as raised:
                while True:
                    await connection.send(bytes(100_000))
            assert raised.value.sent is not None
            assert raised.value.sent.code == 1011
            assert raised.value.sent.reason == "the peer does not read"
            await connection.wait_closed()

    run(main())


def test_peer_that_reads_slowly_is_not_stuck(run: Callable[..., Any]) -> None:
    """More is written than it reads, so what waits for it never becomes less."""

    async def main() -> None:
        peers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        seen = asyncio.Event()

        async def read_by_hand(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await accept(reader, writer)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            peers.put_nowait(writer)
            await seen.wait()  # from 3.12 on, a server's wait_closed waits for its connections

        async with serving(read_by_hand) as port:
            connection = await websocket.connect(
                f"ws://127.0.0.1:{port}", ping_interval=600, ping_timeout=600
            )
            sock = (await peers.get()).get_extra_info("socket")
            timer = connection._keepalive
            assert timer is not None
            size = 1 << 22
            sends = [asyncio.create_task(connection.send(bytes(size)))]
            await until(lambda: connection._writing_paused)
            timer._note_what_the_peer_has_taken(0)
            for moment in range(1, 5):
                sends.append(asyncio.create_task(connection.send(bytes(size))))
                await asyncio.sleep(0)
                left = size // 2
                with socket.socket(fileno=os.dup(sock.fileno())) as peer:
                    peer.setblocking(False)
                    while left > 0:
                        with contextlib.suppress(BlockingIOError):
                            left -= len(peer.recv(left))
                        await asyncio.sleep(0)
                timer._note_what_the_peer_has_taken(moment)
                assert connection._writing_paused
                assert timer._stuck_since == moment
            for later in (5, 6):
                timer._note_what_the_peer_has_taken(later)
            assert timer._stuck_since is not None and timer._stuck_since <= 5
            seen.set()
            connection.transport.abort()
            await asyncio.gather(*sends, return_exceptions=True)

    run(main())
