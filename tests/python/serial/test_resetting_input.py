"""Discarding input: bytes received before a reset are not returned after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from penstock.serial import SerialConfig, SerialPort, open_serial_port
from penstock.serial._port.readiness import AsyncioReadiness
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio

Receive = Callable[[SerialPort], Awaitable[object]]


async def test_bytes_of_a_yielding_receiver_stay_discarded(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def receive() -> None:
            with scope:
                await port.receive()

        peer.write(b"old")
        await until(port.input_waiting)
        tasks.start_soon(receive)
        await until(lambda: not port.input_waiting())
        scope.cancel()
        await port.reset_input_buffer()
        await anyio.wait_all_tasks_blocked()
        peer.write(b"new")
        assert await port.receive() == b"new"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_bytes_of_a_waiting_receiver_stay_discarded(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        task = asyncio.ensure_future(port.receive())
        await asyncio.sleep(0)
        readiness = port._readiness
        assert isinstance(readiness, AsyncioReadiness)
        peer.write(b"old")
        await until(lambda: readiness._reader is not None and readiness._reader.done())
        task.cancel()
        await port.reset_input_buffer()
        with pytest.raises(asyncio.CancelledError):
            await task
        peer.write(b"new")
        assert await port.receive() == b"new"


@pytest.mark.parametrize(
    "receive",
    [
        lambda port: port.receive_until(b"\r"),
        lambda port: port.receive_exactly(100),
    ],
    ids=["until", "exactly"],
)
@pytest.mark.parametrize("after", [b"", b"after"])
async def test_cancelled_receiver_keeps_only_bytes_after_a_reset(
    peer: PtyPeer, receive: Receive, after: bytes
) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def run() -> None:
            with scope:
                await receive(port)

        tasks.start_soon(run)
        peer.write(b"before")
        await anyio.wait_all_tasks_blocked()
        await until(lambda: not port.input_waiting())
        await anyio.wait_all_tasks_blocked()
        await port.reset_input_buffer()
        if after:
            peer.write(after)
            await until(lambda: not port.input_waiting())
            await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        peer.write(b"new")
        assert await port.receive_exactly(len(after) + 3) == after + b"new"


async def test_partial_mark_is_discarded(peer: PtyPeer) -> None:
    async with (
        await open_serial_port(peer.path, SerialConfig(mark_errors=True)) as port,
        anyio.create_task_group() as tasks,
    ):
        scope = anyio.CancelScope()

        async def run() -> None:
            with scope:
                await port.receive_marked()

        port._kept = b"\xff\x00"  # the driver delivers a mark in two pieces
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        await port.reset_input_buffer()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        peer.write(b"new")
        assert (await port.receive_marked()).data == b"new"
