"""Counts of the descriptor's registrations with the loop and of its reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from penstock.serial import SerialPort, UnsupportedAsyncBackendError, open_serial_port
from tests.python.conftest import BACKENDS
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def port(peer: PtyPeer) -> Any:
    async with await open_serial_port(peer.path) as opened:
        yield opened


async def exchange(port: SerialPort, peer: PtyPeer, count: int) -> None:
    """Exchange a request and a reply ``count`` times; each receive waits before the reply."""

    async def reply() -> None:
        for _ in range(count):
            await peer.read(1)
            await anyio.wait_all_tasks_blocked()
            peer.write(b"r")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reply)
        for _ in range(count):
            await port.send(b"q")
            assert await port.receive() == b"r"


# Only asyncio's registration persists. trio registers for each wait, and Penstock's loop is tested
# in test_native_receiving.py.
on_asyncio = pytest.mark.parametrize(
    "anyio_backend",
    [row for row in BACKENDS if row.id in ("asyncio", "asyncio+uvloop")],
    indirect=True,
)


def count_registrations(port: SerialPort) -> dict[str, int]:
    """Count the port's registrations with its loop from now on."""
    readiness = port._waiting_room()
    counts = {"add": 0, "remove": 0, "fired": 0}
    loop: Any = asyncio.get_running_loop()
    fire = readiness._on_readable  # type: ignore[attr-defined]

    def fired() -> None:
        counts["fired"] += 1
        fire()

    class Loop:
        def __getattr__(self, name: str) -> Any:
            return getattr(loop, name)

        def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
            counts["add"] += 1
            loop.add_reader(fd, fired)

        def remove_reader(self, fd: int) -> None:
            counts["remove"] += 1
            loop.remove_reader(fd)

    readiness._loop = Loop()  # type: ignore[attr-defined]
    readiness.is_current = lambda: True  # type: ignore[method-assign]
    return counts


@on_asyncio
async def test_requests_and_replies_need_one_registration(port: SerialPort, peer: PtyPeer) -> None:
    counts = count_registrations(port)
    await exchange(port, peer, 20)
    assert counts == {"add": 1, "remove": 0, "fired": 20}


@on_asyncio
async def test_unread_bytes_do_not_keep_the_loop_busy(port: SerialPort, peer: PtyPeer) -> None:
    counts = count_registrations(port)
    await exchange(port, peer, 1)
    peer.write(b"nobody asked")
    await until(lambda: counts["remove"])
    fired = counts["fired"]
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    assert counts["fired"] == fired
    assert await port.receive() == b"nobody asked"
    await exchange(port, peer, 1)
    assert counts["add"] == 2


@on_asyncio
async def test_unplugged_idle_port_does_not_keep_the_loop_busy(
    port: SerialPort, peer: PtyPeer
) -> None:
    counts = count_registrations(port)
    await exchange(port, peer, 1)
    peer.unplug()
    await until(lambda: counts["remove"])
    fired = counts["fired"]
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    assert counts["fired"] == fired


@on_asyncio
async def test_closing_leaves_no_registration(peer: PtyPeer) -> None:
    port = await open_serial_port(peer.path)
    counts = count_registrations(port)
    await exchange(port, peer, 3)
    await port.aclose()
    assert counts["add"] == counts["remove"] == 1


class CannotWait(asyncio.SelectorEventLoop):
    """A loop without descriptor readiness, like asyncio's proactor loop."""

    def add_reader(self, *_: Any) -> None:
        raise NotImplementedError

    def add_writer(self, *_: Any) -> None:
        raise NotImplementedError


def test_loop_that_cannot_wait_for_a_port_is_named(peer: PtyPeer) -> None:
    async def use() -> None:
        async with await open_serial_port(peer.path) as port:
            with pytest.raises(UnsupportedAsyncBackendError, match="CannotWait cannot wait for a"):
                await port.receive()
            with pytest.raises(UnsupportedAsyncBackendError, match=r"use penstock\.run, asyncio's"):
                await port.send(bytes(200_000))
            peer.write(b"there")
            assert await port.receive() == b"there"  # a receive of pending bytes needs no wait
            await port.reset_output_buffer()

    with asyncio.Runner(loop_factory=CannotWait) as runner:
        # The loop's own wake-up is not refused, because it uses _add_reader.
        runner.run(use())


def test_port_can_be_used_on_another_loop_later(peer: PtyPeer) -> None:
    async def open_and_wait() -> SerialPort:
        port = await open_serial_port(peer.path)
        with anyio.move_on_after(0.001):
            await port.receive()
        return port

    async def use(port: SerialPort) -> None:
        async with port:
            await exchange(port, peer, 3)

    port = anyio.run(open_and_wait)
    anyio.run(use, port)
