"""Receiving: pending bytes at once, else the first bytes to arrive, and no byte is lost."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from penstock.serial import SerialConfig, SerialPort, open_serial_port
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio


async def test_receive_returns_pending_bytes_up_to_the_limit(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.write(b"abcdef")
        assert await port.receive(4) == b"abcd"
        assert await port.receive() == b"ef"


async def test_waiting_receiver_gets_the_first_bytes(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        received: list[bytes] = []

        async def receive() -> None:
            for _ in range(3):
                received.append(await port.receive())

        tasks.start_soon(receive)
        for count, word in enumerate((b"one", b"two", b"three")):
            await anyio.wait_all_tasks_blocked()
            peer.write(word)
            await until(lambda count=count: len(received) > count)
    assert received == [b"one", b"two", b"three"]


async def test_waiting_receiver_with_a_small_limit_leaves_the_rest(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        async with anyio.create_task_group() as tasks:
            received: list[bytes] = []

            async def receive() -> None:
                received.append(await port.receive(2))

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            peer.write(b"abcde")
        assert received == [b"ab"]
        assert port.input_waiting() == 3
        assert await port.receive() == b"cde"


async def test_receive_into_fills_the_buffer(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        buffer = bytearray(8)
        peer.write(b"abc")
        assert await port.receive_into(buffer) == 3
        assert bytes(buffer) == b"abc\0\0\0\0\0"
        peer.write(b"defg")
        assert await port.receive_into(memoryview(buffer)[6:]) == 2
        assert bytes(buffer) == b"abc\0\0\0de"
        assert await port.receive() == b"fg"


async def test_receive_into_waits_for_the_first_byte(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        buffer = bytearray(4)
        counts: list[int] = []

        async def receive() -> None:
            counts.append(await port.receive_into(buffer))

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        peer.write(b"hi")
        await until(lambda: counts)
        assert counts == [2]
        assert buffer[:2] == b"hi"


async def test_receive_available_returns_all_pending_bytes(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.write(b"x" * 1000)
        assert await port.receive_available() == b"x" * 1000
        peer.write(b"abcdef")
        assert await port.receive_available(limit=4) == b"abcd"
        assert await port.receive_available() == b"ef"


async def test_receive_available_respects_the_chunk_size(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path, SerialConfig(read_chunk_size=64)) as port:
        peer.write(b"x" * 100)
        assert len(await port.receive_available()) == 64
        assert len(await port.receive_available(limit=1000)) == 36


@pytest.mark.parametrize("count", [0, -1])
async def test_count_below_one_is_refused_at_once(peer: PtyPeer, count: int) -> None:
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(ValueError, match="at least 1"):
            await port.receive(count)
        with pytest.raises(ValueError, match="at least 1"):
            await port.receive_available(limit=count)


async def test_unusable_buffer_is_refused_at_once(peer: PtyPeer) -> None:
    read_only: Any = b"1234"
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(TypeError, match="writable"):
            await port.receive_into(read_only)
        with pytest.raises(TypeError, match="contiguous"):
            await port.receive_into(memoryview(bytearray(8))[::2])
        with pytest.raises(ValueError, match="at least 1 byte"):
            await port.receive_into(bytearray())


async def test_second_receiver_is_refused_and_the_first_continues(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        received: list[bytes] = []

        async def receive() -> None:
            received.append(await port.receive())

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        for second in (port.receive(), port.receive_into(bytearray(1)), port.receive_available()):
            with pytest.raises(anyio.BusyResourceError):
                await second
        peer.write(b"x")
        await until(lambda: received)
        assert received == [b"x"]


async def test_cancelled_receiver_leaves_no_state_behind(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        for _ in range(3):
            with anyio.move_on_after(0.001) as scope:
                await port.receive()
            assert scope.cancelled_caught
        peer.write(b"late")
        assert await port.receive() == b"late"


@pytest.mark.parametrize("method", ["receive", "receive_into", "receive_available"])
async def test_bytes_read_for_a_cancelled_receiver_go_to_the_next_receiver(
    peer: PtyPeer, method: str
) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.write(b"abcdef")
        with anyio.CancelScope() as scope:
            scope.cancel()
            if method == "receive":
                await port.receive(4)
            elif method == "receive_into":
                await port.receive_into(bytearray(4))
            else:
                await port.receive_available(limit=4)
        assert scope.cancelled_caught
        assert port.input_waiting() == 6
        assert await port.receive_available(limit=5) == b"abcde"
        assert await port.receive(5) == b"f"


@pytest.mark.parametrize("method", ["receive", "receive_into"])
async def test_receiver_cancelled_as_bytes_arrive_loses_none(peer: PtyPeer, method: str) -> None:
    """On asyncio the loop has read the bytes for a task that is cancelled before it runs."""
    async with await open_serial_port(peer.path) as port:
        for turns in range(6):  # cancel one turn later each time: before, during and after
            async with anyio.create_task_group() as tasks:
                taken: list[bytes] = []

                async def receive(taken: list[bytes] = taken) -> None:
                    if method == "receive":
                        taken.append(await port.receive())
                    else:
                        buffer = bytearray(64)
                        taken.append(bytes(buffer[: await port.receive_into(buffer)]))

                tasks.start_soon(receive)
                await anyio.wait_all_tasks_blocked()
                peer.write(b"precious")
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            if not taken:
                taken.append(await port.receive())
            assert taken == [b"precious"]
            assert port.input_waiting() == 0


async def test_random_cancellation_keeps_every_byte_in_order(peer: PtyPeer) -> None:
    chance = random.Random(7)
    sent = bytes(chance.randrange(256) for _ in range(20_000))
    received = bytearray()

    async def feed() -> None:
        position = 0
        while position < len(sent):
            size = chance.randrange(1, 200)
            try:
                position += os.write(peer.fd, sent[position : position + size])
            except BlockingIOError:
                await anyio.wait_writable(peer.fd)
            if chance.random() < 0.5:
                await anyio.lowlevel.checkpoint()

    async def receive_some(port: SerialPort) -> None:
        choice = chance.randrange(3)
        with anyio.move_on_after(chance.choice([0, 0.0001, 10])):
            if choice == 0:
                received.extend(await port.receive(chance.randrange(1, 300)))
            elif choice == 1:
                received.extend(await port.receive_available())
            else:
                buffer = bytearray(chance.randrange(1, 300))
                received.extend(buffer[: await port.receive_into(buffer)])

    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        tasks.start_soon(feed)
        with anyio.fail_after(60):
            while len(received) < len(sent):
                await receive_some(port)
    assert bytes(received) == sent


async def test_receiver_with_constant_input_lets_other_tasks_run(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        turns: list[str] = []

        async def other() -> None:
            for _ in range(5):
                turns.append("other")
                await anyio.lowlevel.checkpoint()

        peer.write(b"x" * 100)
        tasks.start_soon(other)
        for _ in range(100):
            await port.receive(1)
            turns.append("receiver")
        assert "other" in turns[:20]


async def test_anyios_buffered_stream_reads_lines_from_a_port(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        lines = BufferedByteReceiveStream(port)
        peer.write(b"A +1.0\rB +2.0\r")
        assert await lines.receive_until(b"\r", 100) == b"A +1.0"
        assert await lines.receive_until(b"\r", 100) == b"B +2.0"


async def test_discard_also_drops_bytes_kept_for_a_cancelled_receiver(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.write(b"stale")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await port.receive(2)
        await port.reset_input_buffer()
        assert port.input_waiting() == 0
        peer.write(b"fresh")
        assert await port.receive() == b"fresh"


async def test_receive_after_a_send_reads_only_once_the_answer_is_there(
    peer: PtyPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_serial_port(peer.path) as port:
        reads = []

        def counted(size: int, read: Callable[[int], bytes] = port._read) -> bytes:
            reads.append(size)
            return read(size)

        monkeypatch.setattr(port, "_read", counted)
        for number in range(3):
            await port.send(b"?")
            async with anyio.create_task_group() as tasks:

                async def answer(number: int = number) -> None:
                    assert await peer.read(1) == b"?"
                    peer.write(b"%d" % number)

                tasks.start_soon(answer)
                assert await port.receive() == b"%d" % number
        assert len(reads) <= 3  # none on Penstock's loop, whose reader makes the call
        # A receive without a send before it takes what is there at once.
        await port.send(b"?")
        peer.write(b"ab")
        assert await port.receive(1) == b"a"
        assert await port.receive(1) == b"b"
