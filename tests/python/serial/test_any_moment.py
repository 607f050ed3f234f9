"""Disconnects and cancellation at every point of every call."""

from __future__ import annotations

import errno
import os
import termios
import threading
import warnings
from collections.abc import Awaitable, Callable

import anyio
import pytest

from penstock.serial import (
    PortNotFoundError,
    RS485Config,
    SerialConfig,
    SerialDisconnectedError,
    SerialPort,
    open_serial_port,
    sync,
)
from penstock.serial.testing import EmulatedDriver
from tests.python.open_descriptors import open_descriptors
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio

OTHER = SerialConfig(baudrate=9600, low_latency=True, rs485=RS485Config(), mark_errors=True)
SWITCHED = SerialConfig(rs485=RS485Config(software=True))
CALLS: dict[str, Callable[[SerialPort], Awaitable[object]]] = {
    "send": lambda port: port.send(b"abc"),
    "receive": lambda port: port.receive(),
    "configure": lambda port: port.configure(OTHER),
    "drain": lambda port: port.drain(),
    "drain_exact": lambda port: port.drain_exact(),
    "send_break": lambda port: port.send_break(0.002),
    "modem_lines": lambda port: port.modem_lines(),
    "control_lines": lambda port: port.control_lines(),
    "set_control_lines": lambda port: port.set_control_lines(rts=False, dtr=True),
    "wait_modem_event": lambda port: port.wait_modem_event(),
    "error_counters": lambda port: port.error_counters(),
    "reset_input_buffer": lambda port: port.reset_input_buffer(),
    "reset_output_buffer": lambda port: port.reset_output_buffer(),
    "aclose": lambda port: port.aclose(),
}


class Unplugging:
    """Unplugs the device at the n-th request; later requests fail with EIO."""

    def __init__(self, peer: PtyPeer, driver: EmulatedDriver) -> None:
        self._peer = peer
        self._lock = threading.Lock()  # a blocking ioctl runs in its own thread
        self._left = -1
        self.done = False
        driver.transmitter_empty = None  # so that drain_exact also calls the kernel
        driver.on_request = self._count

    def after(self, requests: int) -> None:
        self._left = requests

    def _count(self, request: int) -> None:
        with self._lock:
            if self._left == 0:
                self._peer.unplug()
                self.done = True
            self._left -= 1
        if self.done and request != termios.TIOCNXCL:  # TIOCNXCL needs no device
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("config", [SerialConfig(), SWITCHED], ids=["plain", "rs485"])
@pytest.mark.parametrize("call", CALLS)
async def test_device_may_be_unplugged_at_any_request(call: str, config: SerialConfig) -> None:
    requests = 0
    unplugged = True
    while unplugged:
        descriptors = open_descriptors()
        with PtyPeer() as peer, EmulatedDriver().installed() as driver, warnings.catch_warnings():
            warnings.simplefilter("error")
            unplugging = Unplugging(peer, driver)
            port = await open_serial_port(peer.path, config)
            unplugging.after(requests)
            with anyio.move_on_after(0.02 if call in ("receive", "wait_modem_event") else None):
                try:
                    await CALLS[call](port)
                except SerialDisconnectedError:
                    assert unplugging.done
                    assert not port.is_open
            await port.aclose()
            unplugged = unplugging.done
        await until(lambda: open_descriptors() <= descriptors)  # noqa: B023
        requests += 1


async def test_device_may_be_unplugged_at_any_request_while_opening() -> None:
    wish = OTHER.with_changes(initial_rts=False, initial_dtr=True)
    requests = 0
    unplugged = True
    while unplugged:
        descriptors = open_descriptors()
        with PtyPeer() as peer, EmulatedDriver().installed() as driver, warnings.catch_warnings():
            warnings.simplefilter("error")
            unplugging = Unplugging(peer, driver)
            unplugging.after(requests)
            try:
                port = await open_serial_port(peer.path, wish)
            except (SerialDisconnectedError, PortNotFoundError):
                assert unplugging.done
            else:
                unplugged = unplugging.done
                await port.aclose()
        assert open_descriptors() <= descriptors
        requests += 1
    assert requests > 10


def test_device_may_be_unplugged_at_any_request_of_a_blocking_port() -> None:
    calls: dict[str, Callable[[sync.SerialPort], object]] = {
        "send": lambda port: port.send(b"abc"),
        "configure": lambda port: port.configure(OTHER),
        "drain_exact": lambda port: port.drain_exact(timeout=30),
        "send_break": lambda port: port.send_break(0.002),
        "set_control_lines": lambda port: port.set_control_lines(rts=False, dtr=True),
        "wait_modem_event": lambda port: port.wait_modem_event(timeout=0.02),
        "error_counters": lambda port: port.error_counters(),
        "close": lambda port: port.close(),
    }
    for config in (SerialConfig(), SWITCHED):
        for call in calls.values():
            requests = 0
            unplugged = True
            while unplugged:
                with PtyPeer() as peer, EmulatedDriver().installed() as driver:
                    unplugging = Unplugging(peer, driver)
                    port = sync.open_serial_port(peer.path, config)
                    unplugging.after(requests)
                    try:
                        call(port)
                    except SerialDisconnectedError:
                        assert unplugging.done
                        assert not port.is_open
                    except TimeoutError:
                        pass
                    port.close()
                    unplugged = unplugging.done
                requests += 1


@pytest.mark.parametrize("config", [SerialConfig(), SWITCHED], ids=["plain", "rs485"])
@pytest.mark.parametrize("call", [call for call in CALLS if call != "aclose"])
async def test_call_may_be_cancelled_at_any_step(
    peer: PtyPeer, driver: EmulatedDriver, call: str, config: SerialConfig
) -> None:
    driver.transmitter_empty = None
    async with await open_serial_port(peer.path, config) as port:
        for steps in range(25):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:

                    async def cancel_after(steps: int, scope: anyio.CancelScope) -> None:
                        for _ in range(steps):
                            await anyio.lowlevel.checkpoint()
                        scope.cancel()

                    tasks.start_soon(cancel_after, steps, scope)
                    await CALLS[call](port)
                    tasks.cancel_scope.cancel()
            assert not driver.breaking
            assert bool(driver.lines & termios.TIOCM_RTS) is False
            # Every setting of the reported configuration is in force.
            assert port.config in (config, OTHER)
            speed = termios.B9600 if port.config == OTHER else termios.B115200
            assert peer.settings()[4] == speed
            assert bool(peer.settings()[0] & termios.PARMRK) is port.config.mark_errors
            await port.configure(config)
            # Both directions still work.
            peer.write(b"\xff")
            assert await port.receive() == b"\xff"
            while not peer.nothing_sent():
                pass
            await port.send(b"x")
            assert await peer.read(1) == b"x"


@pytest.mark.parametrize("steps", range(12))
async def test_opening_and_closing_may_be_cancelled_at_each_step(
    peer: PtyPeer, driver: EmulatedDriver, steps: int
) -> None:
    found = peer.settings()
    descriptors = open_descriptors()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

            tasks.start_soon(cancel)
            async with await open_serial_port(peer.path, OTHER) as port:
                await port.send(b"x")
    assert peer.settings() == found
    assert not peer.is_exclusive()
    assert open_descriptors() <= descriptors
