"""asyncio's own cancellation, which ignores shields, while a driver call hangs."""

from __future__ import annotations

import asyncio
import termios
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.serial import RS485Config, SerialConfig, open_serial_port
from penstock.serial._tty import system_calls
from penstock.serial.testing import EmulatedDriver
from penstock.serial.transport import create_serial_connection
from tests.python.conftest import BACKENDS
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[loop for loop in BACKENDS if loop.id != "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Stuck:
    """The driver hangs in a request until it is released."""

    def __init__(self) -> None:
        self.there = threading.Event()
        self.go = threading.Event()


@contextmanager
def stuck_at(driver: EmulatedDriver, request: int) -> Iterator[Stuck]:
    stuck = Stuck()

    def hang(asked: int) -> None:
        if asked == request and not stuck.there.is_set():
            stuck.there.set()
            assert stuck.go.wait(60)

    driver.on_request = hang
    try:
        yield stuck
    finally:
        stuck.go.set()
        driver.on_request = lambda request: None


async def cancelled_in(
    driver: EmulatedDriver, request: int, call: Coroutine[Any, Any, Any]
) -> None:
    """Run ``call``, cancel it in ``request``, release the driver; the call ends cancelled."""
    with stuck_at(driver, request) as stuck:
        task = asyncio.ensure_future(call)
        await until(stuck.there.is_set)
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()  # a second cancellation has no effect
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()  # the driver has not answered
        stuck.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_settings_that_took_effect_are_reported(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    async with await open_serial_port(peer.path) as port:
        marking = SerialConfig(mark_errors=True)
        await cancelled_in(driver, system_calls.TCSETS2, port.configure(marking))
        assert port.config == marking
        peer.write(b"\xff")
        assert await port.receive() == b"\xff"


async def test_break_ends_when_its_caller_is_cancelled(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    async with await open_serial_port(peer.path) as port:
        await cancelled_in(driver, system_calls.TIOCSBRK, port.send_break(60))
        assert not driver.breaking
        await cancelled_in(driver, system_calls.TIOCCBRK, port.send_break(0))
        assert not driver.breaking


async def test_rs485_line_is_released_after_a_cancellation(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    config = SerialConfig(rs485=RS485Config(software=True))
    async with await open_serial_port(peer.path, config) as port:
        await cancelled_in(driver, termios.TIOCMBIS, port.send(b"x"))
        assert not driver.lines & termios.TIOCM_RTS
        assert peer.nothing_sent()


async def test_port_can_be_opened_after_a_cancelled_open(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    await cancelled_in(driver, system_calls.TCSETS2, open_serial_port(peer.path))
    async with await open_serial_port(peer.path):
        pass
    loop = asyncio.get_running_loop()
    opening = create_serial_connection(loop, asyncio.Protocol, peer.path, exclusive=True)
    await cancelled_in(driver, system_calls.TCSETS2, opening)
    async with await open_serial_port(peer.path):
        pass
    assert peer.settings() == peer.found_as


@pytest.mark.parametrize("steps", range(1, 13))
async def test_port_is_closed_and_restored_after_repeated_cancellations(
    peer: PtyPeer, driver: EmulatedDriver, steps: int
) -> None:
    async def use() -> None:
        async with port:
            await port.receive()

    port = await open_serial_port(peer.path, SerialConfig(baudrate=9600))
    driver.output_queue = 5
    task = asyncio.ensure_future(use())
    for _ in range(steps):
        await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert port._device.fileno() == -1
    assert peer.settings() == peer.found_as
    assert not peer.is_exclusive()


async def test_driver_error_is_raised_without_a_cancellation(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    async with await open_serial_port(peer.path) as port:
        with stuck_at(driver, termios.TIOCMBIS) as stuck:
            waiting = asyncio.wait_for(port.set_control_lines(rts=True), 60)
            task = asyncio.ensure_future(waiting)
            await until(stuck.there.is_set)
            driver.fail[termios.TIOCMBIS] = 25
            stuck.go.set()
            with pytest.raises(NotImplementedError, match="modem control lines"):
                await task
