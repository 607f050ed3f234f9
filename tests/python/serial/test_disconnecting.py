"""A disconnected device: every call raises the same error, and the port is not open.

If the far end of a pty is closed, the kernel hangs up the tty, as it does when an adapter is
unplugged.
"""

from __future__ import annotations

import errno

import anyio
import pytest

from penstock.serial import SerialDisconnectedError, SerialPort, open_serial_port
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer
from tests.python.serial.test_closing import CALLS

pytestmark = pytest.mark.anyio


async def unplugged(peer: PtyPeer) -> SerialPort:
    port = await open_serial_port(peer.path)
    peer.unplug()
    return port


@pytest.mark.parametrize("call", [call for call in CALLS if call != "send nothing"])
async def test_every_call_raises_disconnected(peer: PtyPeer, call: str) -> None:
    async with await unplugged(peer) as port:
        for _ in range(2):
            with pytest.raises(SerialDisconnectedError, match="was disconnected") as caught:
                await CALLS[call](port)
            assert isinstance(caught.value, anyio.BrokenResourceError)
            assert caught.value.filename == peer.path
            assert not port.is_open


async def test_counts_raise_disconnected(peer: PtyPeer) -> None:
    async with await unplugged(peer) as port:
        with pytest.raises(SerialDisconnectedError):
            port.input_waiting()
        with pytest.raises(SerialDisconnectedError):
            port.output_waiting()


@pytest.mark.parametrize("call", ["receive", "receive_into", "receive_available", "send"])
async def test_waiting_calls_raise_disconnected(peer: PtyPeer, call: str) -> None:
    errors: list[Exception] = []

    async with await open_serial_port(peer.path) as port:

        async def wait() -> None:
            try:
                if call == "send":
                    await port.send(bytes(200_000))
                else:
                    await CALLS[call](port)
            except SerialDisconnectedError as exc:
                errors.append(exc)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            peer.unplug()
        assert len(errors) == 1
        assert not port.is_open


async def test_close_after_a_disconnect_raises_nothing(
    peer: PtyPeer, recwarn: pytest.WarningsRecorder
) -> None:
    port = await unplugged(peer)
    with pytest.raises(SerialDisconnectedError):
        await port.receive()
    await port.aclose()
    assert not recwarn.list


async def test_close_after_an_undetected_disconnect_raises_nothing(
    peer: PtyPeer, recwarn: pytest.WarningsRecorder
) -> None:
    port = await unplugged(peer)
    await port.aclose()
    assert not recwarn.list


@pytest.mark.parametrize("code", [errno.EIO, errno.ENODEV, errno.ENXIO, errno.EPIPE])
async def test_errors_of_usb_drivers_are_mapped_to_disconnected(
    peer: PtyPeer, driver: EmulatedDriver, code: int
) -> None:
    import termios

    async with await open_serial_port(peer.path) as port:
        driver.fail[termios.TIOCMGET] = code
        with pytest.raises(SerialDisconnectedError):
            await port.modem_lines()
        assert not port.is_open
