"""Receiving on Penstock's loop: the extension reads and the dispatcher steps the task."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.serial import SerialClosedError, SerialPort, open_serial_port
from tests.python.conftest import BACKENDS
from tests.python.serial.pty_peer import PtyPeer, until

ROW = next(row for row in BACKENDS if row.id == "asyncio+penstock")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize(
        "anyio_backend", [pytest.param(*ROW.values, id="penstock", marks=ROW.marks)], indirect=True
    ),
]


@pytest.fixture
async def port(peer: PtyPeer) -> Any:
    async with await open_serial_port(peer.path) as opened:
        peer.write(b"!")
        assert await opened.receive() == b"!"  # binds the port to this loop
        yield opened


def watched_descriptors() -> set[int]:
    """Return every descriptor that an epoll instance of this process watches."""
    watched = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if "eventpoll" not in os.readlink(entry):
                continue
            lines = Path("/proc/self/fdinfo", entry.name).read_text().splitlines()
        except OSError:
            continue
        watched |= {int(line.split()[1]) for line in lines if line.startswith("tfd:")}
    return watched


def is_watched(port: SerialPort) -> bool:
    return port._device.fileno() in watched_descriptors()


async def test_pending_data_needs_no_registration(port: SerialPort, peer: PtyPeer) -> None:
    for _ in range(50):
        peer.write(b"x")
        assert await port.receive(1) == b"x"
    assert not is_watched(port)


async def test_registration_is_kept_after_the_wait(port: SerialPort, peer: PtyPeer) -> None:
    asyncio.get_running_loop().call_soon(peer.write, b"x")
    assert await port.receive() == b"x"
    assert is_watched(port)
    await port.aclose()
    assert not is_watched(port)


async def test_unread_bytes_and_a_hangup_do_not_keep_the_loop_busy(
    port: SerialPort, peer: PtyPeer
) -> None:
    for trouble in (lambda: peer.write(b"nobody asked"), peer.unplug):
        asyncio.get_running_loop().call_soon(peer.write, b"x")
        assert (await port.receive()).startswith(b"x")
        assert is_watched(port)
        trouble()
        await until(lambda: not is_watched(port))
        if trouble != peer.unplug:
            assert await port.receive() == b"nobody asked"


async def test_receiver_with_constant_input_does_not_starve_other_tasks(
    port: SerialPort, peer: PtyPeer
) -> None:
    turns = 0
    received = 0

    async def count_turns() -> None:
        nonlocal turns
        while received < 400:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    peer.write(bytes(400))
    while received < 400:
        received += len(await port.receive(1))
    await counting
    assert turns > 100


async def test_a_receiver_that_works_for_long_delays_a_descriptor_by_one_step(
    port: SerialPort, peer: PtyPeer
) -> None:
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    steps = 0
    handled_after: list[int] = []

    def handle() -> None:
        near.recv(1)
        handled_after.append(steps)

    loop.add_reader(near, handle)
    peer.write(bytes(60))
    with near, far:
        for _ in range(60):
            await port.receive(1)
            steps += 1
            if steps == 40:
                far.send(b"x")
            end = time.perf_counter() + 0.0005
            while time.perf_counter() < end:
                pass
        loop.remove_reader(near)
    assert handled_after in ([40], [41])


async def test_bytes_read_by_a_cancelled_receiver_go_to_the_next(
    port: SerialPort, peer: PtyPeer
) -> None:
    for receive_once in (lambda: port.receive(2), lambda: port.receive_into(bytearray(2))):
        peer.write(b"abcd")
        with anyio.CancelScope() as scope:
            scope.cancel()  # gives the loop work, so the receive yields while it holds bytes
            await receive_once()
        assert scope.cancelled_caught
        assert await port.receive_exactly(4) == b"abcd"


async def test_discarded_receive_keeps_its_bytes(port: SerialPort, peer: PtyPeer) -> None:
    peer.write(b"abc")
    receiving: Any = port.receive(2)
    asyncio.get_running_loop().call_soon(lambda: None)
    assert receiving.send(None) is None  # it yields
    receiving.close()
    del receiving
    gc.collect()
    assert await port.receive_exactly(3) == b"abc"


async def test_closed_reader_raises_from_every_call(peer: PtyPeer) -> None:
    port = await open_serial_port(peer.path)
    with anyio.move_on_after(0.001):
        await port.receive()
    receiving = asyncio.create_task(port.receive())
    await asyncio.sleep(0)
    await port.aclose()
    with pytest.raises(SerialClosedError):
        await receiving
    with pytest.raises(SerialClosedError):
        await port.receive()


async def test_loop_of_another_thread_does_not_use_this_loops_reader(
    port: SerialPort, peer: PtyPeer
) -> None:
    received: list[bytes] = []
    peer.write(b"x")
    await asyncio.to_thread(lambda: received.append(asyncio.run(port.receive(1))))
    assert received == [b"x"]


async def test_operation_can_be_awaited_only_once(port: SerialPort, peer: PtyPeer) -> None:
    reader = port._reader
    assert reader is not None
    peer.write(b"ab")
    operation = reader.receive(1)
    assert operation is not None
    assert await operation == b"a"
    with pytest.raises(RuntimeError, match="cannot reuse"):
        await operation
    with pytest.raises(ValueError, match="at least 1, not 0"):
        reader.receive(0)
    with pytest.raises(BufferError):
        reader.receive_into(memoryview(b"read-only"))
