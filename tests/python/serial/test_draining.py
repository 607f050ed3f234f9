"""Draining output on an emulated driver, because a pty never delays output."""

from __future__ import annotations

import termios
import threading

import anyio
import pytest

from penstock.serial import (
    SerialClosedError,
    SerialConfig,
    SerialDisconnectedError,
    open_serial_port,
)
from penstock.serial._port.send import character_bits
from penstock.serial._tty import system_calls
from penstock.serial.config import ByteSize, Parity, StopBits
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("method", ["drain", "drain_exact", "send_eof"])
async def test_drain_returns_when_the_buffer_is_empty(
    peer: PtyPeer, driver: EmulatedDriver, method: str
) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        driver.output_queue = 10
        drained: list[bool] = []

        async def drain() -> None:
            await getattr(port, method)()
            drained.append(True)

        tasks.start_soon(drain)
        looks = len(driver.requests)
        await until(lambda: len(driver.requests) > looks + 3)
        assert not drained
        assert port.output_waiting() == 10
        driver.output_queue = 0
        await until(lambda: drained)


async def test_exact_drain_waits_for_the_last_bit(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        driver.transmitter_empty = False
        drained: list[bool] = []

        async def drain() -> None:
            await port.drain_exact()
            drained.append(True)

        tasks.start_soon(drain)
        await until(lambda: driver.requests.count(system_calls.TIOCSERGETLSR) > 2)
        assert not drained
        driver.transmitter_empty = True
        await until(lambda: drained)


@pytest.mark.parametrize("stuck_in", ["buffer", "chip", "tcdrain"])
async def test_exact_drain_can_be_cancelled_at_every_wait(
    peer: PtyPeer, driver: EmulatedDriver, stuck_in: str
) -> None:
    waiting, release = threading.Event(), threading.Event()

    def stuck(request: int) -> None:
        if request == termios.TCSBRK:
            waiting.set()
            assert release.wait(60)

    driver.on_request = stuck
    async with await open_serial_port(peer.path) as port:
        driver.output_queue = 5 if stuck_in == "buffer" else 0
        driver.transmitter_empty = None if stuck_in == "tcdrain" else False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.drain_exact)
            if stuck_in == "tcdrain":
                await until(waiting.is_set)
            else:
                looks = len(driver.requests)
                await until(lambda: len(driver.requests) > looks + 3)
            tasks.cancel_scope.cancel()
        # The cancellation ended it, because nothing has been released yet.
        assert not release.is_set()
        driver.output_queue = 0
        await port.send(b"x")
        assert await peer.read(1) == b"x"
        release.set()


async def test_drain_raises_on_a_disconnect(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port:
        driver.fail[system_calls.termios.TIOCOUTQ] = 5
        with pytest.raises(SerialDisconnectedError):
            await port.drain()
        assert not port.is_open


@pytest.mark.parametrize("method", ["drain", "drain_exact"])
async def test_closing_ends_a_drain_while_output_may_still_leave(
    peer: PtyPeer, driver: EmulatedDriver, method: str
) -> None:
    port = await open_serial_port(peer.path)
    driver.output_queue = 10
    async with anyio.create_task_group() as tasks:
        errors: list[Exception] = []

        async def drain() -> None:
            try:
                await getattr(port, method)()
            except SerialClosedError as exc:
                errors.append(exc)

        tasks.start_soon(drain)
        looks = len(driver.requests)
        await until(lambda: len(driver.requests) > looks + 1)
        tasks.start_soon(port.aclose)
        await until(lambda: errors)
        assert driver.discarded_output == 0
        driver.output_queue = 0


async def test_closing_ends_a_drain_that_waits_for_the_transmitter(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    port = await open_serial_port(peer.path)
    driver.transmitter_empty = False
    async with anyio.create_task_group() as tasks:
        errors: list[Exception] = []

        async def drain() -> None:
            try:
                await port.drain_exact()
            except SerialClosedError as exc:
                errors.append(exc)

        tasks.start_soon(drain)
        await until(lambda: driver.requests.count(system_calls.TIOCSERGETLSR) > 1)
        await port.aclose()
    assert len(errors) == 1


async def test_discarding_output_empties_the_buffer(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port:
        driver.output_queue = 7
        await port.reset_output_buffer()
        assert port.output_waiting() == 0


def test_character_length_counts_start_data_parity_and_stop_bits() -> None:
    assert character_bits(SerialConfig()) == 10
    assert character_bits(SerialConfig(parity=Parity.EVEN, byte_size=ByteSize.SEVEN)) == 10
    assert character_bits(SerialConfig(parity=Parity.EVEN, stop_bits=StopBits.TWO)) == 12
