"""Faults that users of other serial libraries reported; none is one of this library."""

from __future__ import annotations

import os
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.serial import (
    FlowControl,
    SerialConfig,
    SerialDisconnectedError,
    SerialPort,
    open_serial_port,
)
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio

XOFF, XON = b"\x13", b"\x11"


class CountedWrites:
    """Counts the system calls with which a port sends."""

    def __init__(self, port: SerialPort) -> None:
        self._write: Any = port._write
        self.calls = 0
        port._write = self

    def __call__(self, data: Any) -> int:
        self.calls += 1
        count: int = self._write(data)
        return count


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("size", [4095, 4096, 4097, 8191, 8192, 8193, 65_536])
async def test_writes_of_about_the_drivers_buffer_neither_stall_nor_spin(
    peer: PtyPeer, size: int
) -> None:
    # pyserial-asyncio-fast 36: a write of just the buffer's size was never finished, and a writer
    # that had nothing left to write stayed registered.
    pieces = [os.urandom(size) for _ in range(1 + 200_000 // size)]
    async with await open_serial_port(peer.path) as port:
        writes = CountedWrites(port)
        async with anyio.create_task_group() as tasks:

            async def send_all() -> None:
                for piece in pieces:
                    await port.send(piece)

            tasks.start_soon(send_all)
            await anyio.wait_all_tasks_blocked()
            await turns()  # the kernel passes on what its worker has not moved yet
            calls = -1
            while calls != writes.calls:
                calls = writes.calls
                await turns()
            for piece in pieces:
                assert await peer.read(size) == piece
        await turns()
        calls = writes.calls
        await turns()
        assert writes.calls == calls


async def test_a_port_can_be_opened_again_as_soon_as_it_is_closed(peer: PtyPeer) -> None:
    # pyserial-asyncio-fast 16: the end of a connection was told before its descriptor was closed.
    for number in range(100):
        async with await open_serial_port(peer.path) as port:
            await port.send(b"%03d" % number)
            assert await peer.read(3) == b"%03d" % number


async def test_a_sender_waits_while_the_peer_has_stopped_it(peer: PtyPeer) -> None:
    # pyserial-asyncio 53: a write under flow control span, and did not end when cancelled.
    config = SerialConfig(flow_control=FlowControl(xon_xoff=True))
    async with await open_serial_port(peer.path, config) as port:
        peer.write(XOFF)
        # The kernel takes the character in its own time.
        while port.send_nowait(b"x"):
            await peer.read(1)
        writes = CountedWrites(port)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(port.send, b"held")
                await anyio.wait_all_tasks_blocked()
                await turns()
                assert writes.calls <= 3
                scope.cancel()
        assert peer.nothing_sent()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.send, b"sent")
            await anyio.wait_all_tasks_blocked()
            assert peer.nothing_sent()
            peer.write(XON)
            assert await peer.read(4) == b"sent"


async def test_a_reader_and_a_writer_learn_of_the_loss_once_each(peer: PtyPeer) -> None:
    # home-assistant 170257: a loop that reads and a waiting write went on after the device had
    # gone, with a flood of messages.
    errors: list[str] = []
    async with await open_serial_port(peer.path) as port:

        async def fail(name: str, call: Any) -> None:
            with pytest.raises(SerialDisconnectedError):
                await call
            errors.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail, "receive", port.receive())
            tasks.start_soon(fail, "send", port.send(bytes(200_000)))
            await anyio.wait_all_tasks_blocked()
            peer.unplug()
        assert sorted(errors) == ["receive", "send"]
        assert not port.is_open
        await turns()


async def test_a_long_answer_in_single_bytes_is_one_answer(peer: PtyPeer) -> None:
    # pymodbus 2881: an answer of more than 256 bytes, or in pieces, was judged incomplete.
    answer = os.urandom(300)
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:

        async def reply() -> None:
            assert await peer.read(2) == b"?\r"
            for byte in answer:
                peer.write(bytes([byte]))
                await anyio.lowlevel.checkpoint()

        tasks.start_soon(reply)
        got = await port.exchange(b"?\r", length=len(answer), timeout=60)
        assert got.data == answer


async def test_the_end_of_a_question_in_the_answer_is_data_when_its_length_is_known(
    peer: PtyPeer,
) -> None:
    # Qcodes 276, pyvisa 225: a binary answer was cut at a byte that ends a line.
    block = b"#42000" + bytes(range(256)) * 7 + bytes(208)
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:

        async def reply() -> None:
            assert await peer.read(6) == b"CURV?\n"
            peer.write(block + b"\n")

        tasks.start_soon(reply)
        got = await port.exchange(b"CURV?\n", length=6, timeout=60)
        assert got.data == b"#42000"
        assert await port.receive_exactly(2000) == block[6:]
        assert await port.receive_until(b"\n") == b""
        await until(lambda: port.input_waiting() == 0)
