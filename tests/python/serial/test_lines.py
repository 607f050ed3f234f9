"""Modem lines and break on an emulated driver, because a pty has neither."""

from __future__ import annotations

import termios
from typing import Any

import anyio
import pytest

from penstock.serial import (
    ConfigurationError,
    ControlLines,
    ModemLines,
    SerialClosedError,
    UnsupportedFeatureError,
    open_serial_port,
)
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio


async def test_modem_lines_are_read(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port:
        driver.lines = termios.TIOCM_CTS | termios.TIOCM_CD
        assert await port.modem_lines() == ModemLines(cts=True, dsr=False, ri=False, cd=True)
        driver.lines = termios.TIOCM_DSR | termios.TIOCM_RI
        assert await port.modem_lines() == ModemLines(cts=False, dsr=True, ri=True, cd=False)


async def test_control_lines_are_set_separately_and_read_back(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    async with await open_serial_port(peer.path) as port:
        await port.set_control_lines(rts=True, dtr=True)
        assert await port.control_lines() == ControlLines(rts=True, dtr=True)
        await port.set_control_lines(rts=False)
        assert await port.control_lines() == ControlLines(rts=False, dtr=True)
        await port.set_control_lines(dtr=False, rts=True)
        assert await port.control_lines() == ControlLines(rts=True, dtr=False)


async def test_line_state_that_is_not_a_boolean_is_refused(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    wrong: Any = 1
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(ConfigurationError, match="rts must be"):
            await port.set_control_lines(rts=wrong)


async def test_device_without_modem_lines_raises_unsupported_feature(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(UnsupportedFeatureError, match="does not support modem control lines"):
            await port.modem_lines()
        with pytest.raises(UnsupportedFeatureError):
            await port.set_control_lines(rts=True)
        assert port.is_open


async def test_break_begins_and_ends(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        tasks.start_soon(port.send_break, 0.3)
        await until(lambda: driver.breaking)
        with pytest.raises(anyio.BusyResourceError):
            await port.send(b"x")
        await until(lambda: not driver.breaking)


async def test_cancelled_break_ends(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.send_break, 3600)
            await until(lambda: driver.breaking)
            tasks.cancel_scope.cancel()
        assert not driver.breaking
        await port.send(b"x")
        assert await peer.read(1) == b"x"


async def test_closing_ends_a_break_and_its_sender_raises_closed(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    port = await open_serial_port(peer.path)
    errors: list[Exception] = []

    async def send_break() -> None:
        try:
            await port.send_break(3600)
        except SerialClosedError as exc:
            errors.append(exc)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send_break)
        await until(lambda: driver.breaking)
        await port.aclose()
        assert not driver.breaking
    assert len(errors) == 1


@pytest.mark.parametrize("duration", [-1, float("nan")])
async def test_break_requires_a_valid_duration(peer: PtyPeer, duration: float) -> None:
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(ValueError, match="duration"):
            await port.send_break(duration)
