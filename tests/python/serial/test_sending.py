"""Sending: all bytes or an error, waits for room, one sender at a time."""

from __future__ import annotations

import array
import os
from typing import Any

import anyio
import pytest

from penstock.serial import RS485Config, SerialConfig, open_serial_port
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer

pytestmark = pytest.mark.anyio


async def test_sent_bytes_arrive(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        await port.send(b"A\r")
        assert await peer.read(2) == b"A\r"


async def test_more_than_the_kernel_buffers_arrives_complete(peer: PtyPeer) -> None:
    data = os.urandom(300_000)
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        tasks.start_soon(port.send, data)
        assert await peer.read(len(data)) == data


async def test_sending_and_receiving_run_concurrently(peer: PtyPeer) -> None:
    data = os.urandom(50_000)
    echoed = bytearray()

    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:

        async def echo() -> None:
            left = len(data)
            while left:
                piece = await peer.read(min(left, 1000))
                left -= len(piece)
                while piece:
                    try:
                        piece = piece[os.write(peer.fd, piece) :]
                    except BlockingIOError:
                        await anyio.wait_writable(peer.fd)

        tasks.start_soon(echo)
        tasks.start_soon(port.send, data)
        while len(echoed) < len(data):
            echoed += await port.receive()
    assert bytes(echoed) == data


async def test_any_buffer_can_be_sent(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        for data in (
            bytearray(b"abcd"),
            memoryview(b"abcd"),
            memoryview(b"a-b-c-d-")[::2],
            array.array("H", [0x6261, 0x6463]),
        ):
            await port.send_buffer(data)
            assert await peer.read(4) == b"abcd"


async def test_text_is_refused_and_no_byte_is_sent(peer: PtyPeer) -> None:
    text: Any = "abc"
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(TypeError):
            await port.send(text)
        assert peer.nothing_sent()


async def test_sending_nothing_sends_nothing(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        await port.send(b"")
        assert peer.nothing_sent()


async def test_send_in_a_cancelled_scope_sends_nothing(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await port.send(b"never")
        assert scope.cancelled_caught
        assert peer.nothing_sent()


async def test_second_sender_is_refused_and_the_first_continues(peer: PtyPeer) -> None:
    data = bytes(200_000)
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        tasks.start_soon(port.send, data)
        await anyio.wait_all_tasks_blocked()
        for second in (port.send(b"x"), port.drain(), port.drain_exact(), port.send_break(0)):
            with pytest.raises(anyio.BusyResourceError):
                await second
        assert await peer.read(len(data)) == data


async def test_sender_that_waits_for_room_can_be_cancelled(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        with anyio.move_on_after(0.01) as scope:
            await port.send(bytes(200_000))
        assert scope.cancelled_caught
        while not peer.nothing_sent():
            pass
        await port.send(b"next")
        assert (await peer.read(4)) == b"next"


async def test_what_needs_no_waiting_is_sent_without_waiting(peer: PtyPeer) -> None:
    data = bytes(range(256)) * 1000
    async with await open_serial_port(peer.path) as port:
        assert port.send_nowait(b"abc") == 3
        assert await peer.read(3) == b"abc"
        assert port.send_nowait(b"") == 0
        taken = 0
        # The kernel passes bytes on to the peer's side at any time, and has room again.
        while count := port.send_nowait(data[taken:]):
            taken += count
        assert 0 < taken < len(data)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.send, data[taken:])
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BusyResourceError):
                port.send_nowait(b"x")
            assert await peer.read(len(data)) == data


async def test_line_that_is_switched_in_software_takes_nothing_without_waiting(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    config = SerialConfig(rs485=RS485Config(software=True))
    async with await open_serial_port(peer.path, config) as port:
        assert port.send_nowait(b"abc") == 0
        assert peer.nothing_sent()
