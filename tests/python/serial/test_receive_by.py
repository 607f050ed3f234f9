"""``receive_by``: a receive with a deadline, on every loop."""

from __future__ import annotations

import anyio
import pytest

from penstock.serial import SerialClosedError, SerialConfig, open_serial_port
from tests.python.serial.pty_peer import PtyPeer

pytestmark = pytest.mark.anyio


def soon() -> float:
    return anyio.current_time() + 0.001


def later() -> float:
    return anyio.current_time() + 30


@pytest.mark.parametrize("marking", [False, True])
async def test_nothing_until_the_deadline_is_empty_and_loses_nothing(
    peer: PtyPeer, marking: bool
) -> None:
    config = SerialConfig(mark_errors=marking)
    async with await open_serial_port(peer.path, config) as port:
        assert await port.receive_by(soon()) == b""
        peer.write(b"abc")
        assert await port.receive_by(later(), 2) == b"ab"
        assert await port.receive_by(later()) == b"c"
        assert await port.receive_by(anyio.current_time() - 1) == b""
        peer.write(b"d")
        assert await port.receive() == b"d"


async def test_bytes_end_the_wait(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        received: list[bytes] = []

        async def receive() -> None:
            received.append(await port.receive_by(later()))

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await port.receive_by(later())
        peer.write(b"answer")
    assert received == [b"answer"]


async def test_a_deadline_ends_its_own_receive_only(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.write(b"a")
        assert await port.receive_by(later()) == b"a"  # its timer stays
        assert await port.receive_by(soon()) == b""  # an earlier deadline
        peer.write(b"b")
        passed = soon()
        while not (data := await port.receive_by(passed)):  # the machine may be slow
            passed = soon()
        assert data == b"b"
        async with anyio.create_task_group() as tasks:
            received: list[bytes] = []

            async def receive() -> None:
                received.append(await port.receive())

            tasks.start_soon(receive)
            await anyio.sleep_until(passed + 0.001)  # the timer of the receive before has fired
            await anyio.wait_all_tasks_blocked()
            assert received == []
            peer.write(b"c")
        assert received == [b"c"]


async def test_a_cancelled_wait_takes_nothing(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.receive_by, later())
            await anyio.wait_all_tasks_blocked()
            peer.write(b"kept")
            tasks.cancel_scope.cancel()
        assert await port.receive_by(later()) == b"kept"


async def test_closing_ends_it_and_later_ones(peer: PtyPeer) -> None:
    port = await open_serial_port(peer.path)
    async with anyio.create_task_group() as tasks:

        async def receive() -> None:
            with pytest.raises(SerialClosedError):
                await port.receive_by(later())

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await port.aclose()
    with pytest.raises(SerialClosedError):
        await port.receive_by(later())


async def test_bad_sizes_are_refused(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(ValueError, match="max_bytes must be at least 1, not 0"):
            await port.receive_by(later(), 0)


async def test_other_devices_have_it_too() -> None:
    async with await open_serial_port("loop://") as port:
        assert await port.receive_by(soon()) == b""
        await port.send(b"there and back")
        assert await port.receive_by(later()) == b"there and back"
