"""Closing ends waits, waits for unsent output and never blocks the loop."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from penstock.serial import SerialClosedError, SerialConfig, SerialPort, open_serial_port
from penstock.serial import sync as blocking
from penstock.serial._tty import system_calls
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio

CALLS: dict[str, Callable[[SerialPort], Any]] = {
    "receive": lambda port: port.receive(),
    "receive_into": lambda port: port.receive_into(bytearray(1)),
    "receive_available": lambda port: port.receive_available(),
    "send": lambda port: port.send(b"x"),
    "send nothing": lambda port: port.send(b""),
    "send_buffer": lambda port: port.send_buffer(bytearray(b"x")),
    "send_break": lambda port: port.send_break(0),
    "drain": lambda port: port.drain(),
    "drain_exact": lambda port: port.drain_exact(),
    "configure": lambda port: port.configure(SerialConfig()),
    "modem_lines": lambda port: port.modem_lines(),
    "control_lines": lambda port: port.control_lines(),
    "set_control_lines": lambda port: port.set_control_lines(rts=True),
    "reset_input_buffer": lambda port: port.reset_input_buffer(),
    "reset_output_buffer": lambda port: port.reset_output_buffer(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_on_a_closed_port_raises_closed(peer: PtyPeer, call: str) -> None:
    port = await open_serial_port(peer.path)
    await port.aclose()
    assert not port.is_open
    with pytest.raises(SerialClosedError, match=f"{peer.path} is closed"):
        await CALLS[call](port)


async def test_counts_of_a_closed_port_raise_closed(peer: PtyPeer) -> None:
    port = await open_serial_port(peer.path)
    await port.aclose()
    with pytest.raises(SerialClosedError):
        port.input_waiting()
    with pytest.raises(SerialClosedError):
        port.output_waiting()
    with pytest.raises(SerialClosedError):
        port.send_nowait(b"x")


@pytest.mark.parametrize("call", ["receive", "receive_into", "receive_available", "send"])
async def test_closing_wakes_waiting_calls_with_closed(peer: PtyPeer, call: str) -> None:
    port = await open_serial_port(peer.path)
    errors: list[Exception] = []

    async def wait() -> None:
        try:
            if call == "send":
                await port.send(bytes(200_000))
            else:
                await CALLS[call](port)
        except anyio.ClosedResourceError as exc:
            errors.append(exc)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await port.aclose()
    assert [type(error) for error in errors] == [SerialClosedError]


async def test_second_close_does_nothing(peer: PtyPeer) -> None:
    port = await open_serial_port(peer.path)
    await port.aclose()
    await port.aclose()
    await port.send_eof()


async def test_two_concurrent_closes_both_return_after_the_close(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    port = await open_serial_port(peer.path)
    descriptor = port._device.fileno()
    assert os.ttyname(descriptor) == peer.path

    async def close() -> None:
        await port.aclose()
        assert port._device.fileno() == -1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        tasks.start_soon(close)


async def test_unsent_output_has_time_to_leave(peer: PtyPeer, driver: EmulatedDriver) -> None:
    port = await open_serial_port(peer.path)
    driver.output_queue = 10
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(port.aclose)
        looks = len(driver.requests)
        await until(lambda: len(driver.requests) > looks + 3)
        assert port._device.fileno() >= 0
        driver.output_queue = 0
    assert port._device.fileno() == -1
    assert driver.discarded_output == 0


async def test_sent_bytes_arrive_if_the_port_is_closed_at_once(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        await port.send(b"last words")
    assert await peer.read(10) == b"last words"


async def test_cancelled_close_discards_output_and_closes(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    port = await open_serial_port(peer.path)
    driver.output_queue = 10
    with anyio.CancelScope() as scope:
        scope.cancel()
        await port.aclose()
    assert scope.cancelled_caught
    assert port._device.fileno() == -1
    assert driver.discarded_output == 10
    assert peer.settings() == peer.found_as


async def test_slow_close_of_a_driver_does_not_block_the_loop(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    port = await open_serial_port(peer.path)
    waiting, answer = threading.Event(), threading.Event()

    def slow(request: int) -> None:
        if request == system_calls.TCSETS2:
            waiting.set()
            assert answer.wait(60)

    driver.on_request = slow
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(port.aclose)
        await until(waiting.is_set)  # the loop runs while the driver does not answer
        answer.set()
    assert peer.settings() == peer.found_as


async def test_modes_are_restored_on_close(peer: PtyPeer, driver: EmulatedDriver) -> None:
    from penstock.serial import RS485Config

    before = driver.rs485
    config = SerialConfig(low_latency=True, rs485=RS485Config(delay_before_send=0.002))
    async with await open_serial_port(peer.path, config):
        assert driver.flags == system_calls.ASYNC_LOW_LATENCY
        # Enabled, RTS on send; bus termination and address are kept.
        assert driver.rs485 == (0x23, 2, 0, 7, 0, 0, 0, 0)
    assert driver.rs485 == before
    assert driver.flags == 0


async def test_settings_that_cannot_be_restored_cause_a_warning(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    port = await open_serial_port(peer.path)
    driver.fail[system_calls.TCSETS2] = 1  # EPERM
    with pytest.warns(RuntimeWarning, match="the previous settings could not be restored"):
        await port.aclose()
    assert port._device.fileno() == -1


@pytest.mark.parametrize("has_waited", [False, True])
async def test_forgotten_port_is_closed_with_a_warning(peer: PtyPeer, has_waited: bool) -> None:
    port = await open_serial_port(peer.path)
    if has_waited:  # registers its descriptor with the loop
        with anyio.move_on_after(0):
            await port.receive()
        with anyio.move_on_after(0.001):
            await port.receive()
        await (
            anyio.lowlevel.checkpoint()
        )  # the loop drops its reference to the delivered cancellation
    descriptor = port._device.fileno()
    with pytest.warns(ResourceWarning, match=f"{peer.path} was never closed"):
        del port
        gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert peer.settings() == peer.found_as
    async with await open_serial_port(peer.path) as again:
        peer.write(b"x")
        assert await again.receive() == b"x"


async def test_port_reopened_with_the_same_descriptor_number_works(peer: PtyPeer) -> None:
    """The loop must have removed the registration of the old descriptor."""
    for word in (b"one", b"two", b"three"):
        async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
            received: list[bytes] = []

            async def receive(port: SerialPort = port, received: list[bytes] = received) -> None:
                received.append(await port.receive())

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            peer.write(word)
            await until(lambda received=received: received)
            assert received == [word]


async def test_closed_port_is_freed_with_its_last_reference(peer: PtyPeer) -> None:
    port = await open_serial_port(peer.path)
    await port.aclose()
    kept = weakref.ref(port._device)
    del port
    assert kept() is None


def test_closed_blocking_port_is_freed_with_its_last_reference(peer: PtyPeer) -> None:
    port = blocking.SerialPort.open(peer.path)
    port.close()
    kept = weakref.ref(port._operations)
    del port
    assert kept() is None


async def test_two_tasks_may_close_a_port(peer: PtyPeer) -> None:
    port = await open_serial_port(peer.path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(port.aclose)
        tasks.start_soon(port.aclose)
    assert not peer.is_exclusive()
