"""Waits for modem lines, error counters, and the lines' state after opening."""

from __future__ import annotations

import errno
import termios

import anyio
import pytest

from penstock.serial import (
    CommEvent,
    ErrorCounters,
    RS485Config,
    SerialClosedError,
    SerialConfig,
    SerialDisconnectedError,
    UnsupportedFeatureError,
    open_serial_port,
)
from penstock.serial._tty import system_calls
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio

CTS, DSR, RI, CD = (getattr(termios, f"TIOCM_{name}") for name in ("CTS", "DSR", "RI", "CD"))
RTS, DTR = termios.TIOCM_RTS, termios.TIOCM_DTR


@pytest.mark.parametrize("kernel_waits", [True, False])
async def test_line_change_ends_the_wait_and_is_named(
    peer: PtyPeer, driver: EmulatedDriver, kernel_waits: bool
) -> None:
    if not kernel_waits:
        driver.fail[system_calls.TIOCMIWAIT] = errno.ENOTTY
    async with await open_serial_port(peer.path) as port:
        for line, expected in (
            (CTS, CommEvent(cts_changed=True)),
            (DSR, CommEvent(dsr_changed=True)),
            (CD, CommEvent(rlsd_changed=True)),
        ):
            events: list[CommEvent] = []

            async def wait(events: list[CommEvent] = events) -> None:
                events.append(await port.wait_modem_event())

            async with anyio.create_task_group() as tasks:
                seen = len(driver.requests)
                tasks.start_soon(wait)
                await until(lambda seen=seen: system_calls.TIOCMIWAIT in driver.requests[seen:])
                driver.set_lines(line, line)
            assert events == [expected]


async def test_pulse_that_ends_before_the_lines_are_read_is_reported(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    async with await open_serial_port(peer.path) as port:
        pulses = iter([True])

        def pulse_before_the_wait(request: int) -> None:
            if request == system_calls.TIOCMIWAIT and next(pulses, False):
                driver.set_lines(CTS, CTS)
                driver.set_lines(CTS, 0)

        driver.on_request = pulse_before_the_wait
        assert await port.wait_modem_event(dsr=False) == CommEvent(cts_changed=True)


@pytest.mark.parametrize(
    ("counter", "expected"),
    [
        ("frame", CommEvent(cts_changed=True, error=True)),
        ("parity", CommEvent(cts_changed=True, error=True)),
        ("overrun", CommEvent(cts_changed=True, error=True)),
        ("buf_overrun", CommEvent(cts_changed=True, error=True)),
        ("brk", CommEvent(cts_changed=True, break_received=True)),
    ],
)
async def test_all_driver_counts_are_reported_with_the_change(
    peer: PtyPeer, driver: EmulatedDriver, counter: str, expected: CommEvent
) -> None:
    driver.counters[counter] = 7  # before the wait, so not reported
    async with await open_serial_port(peer.path) as port:
        happened = iter([True])

        def happen_before_the_wait(request: int) -> None:
            if request == system_calls.TIOCMIWAIT and next(happened, False):
                driver.counters[counter] += 1
                driver.set_lines(CTS, CTS)

        driver.on_request = happen_before_the_wait
        assert await port.wait_modem_event() == expected


async def test_only_the_selected_lines_end_the_wait(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path) as port:
        driver.fail[system_calls.TIOCMIWAIT] = errno.ENOTTY
        with anyio.move_on_after(0.05) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: port.wait_modem_event(cts=False))
                await anyio.sleep(0.005)
                driver.set_lines(CTS, CTS)
        assert scope.cancelled_caught
        with pytest.raises(ValueError, match="at least one line"):
            await port.wait_modem_event(cts=False, dsr=False, ri=False, cd=False)


async def test_closing_and_disconnecting_end_a_wait_for_lines(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    for trouble, error in ((0, SerialClosedError), (errno.EIO, SerialDisconnectedError)):
        port = await open_serial_port(peer.path)
        raised: list[Exception] = []

        async def wait(port: object = port, raised: list[Exception] = raised) -> None:
            try:
                await port.wait_modem_event()  # type: ignore[attr-defined]
            except (SerialClosedError, SerialDisconnectedError) as exc:
                raised.append(exc)

        async with anyio.create_task_group() as tasks:
            seen = len(driver.requests)
            tasks.start_soon(wait)
            await until(lambda seen=seen: system_calls.TIOCMIWAIT in driver.requests[seen:])
            if trouble:
                driver.fail[termios.TIOCMGET] = trouble
            else:
                await port.aclose()
        assert [type(each) for each in raised] == [error]
        assert not port.is_open
        driver.fail.clear()
        await port.aclose()


async def test_wait_on_a_device_without_lines_is_refused(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(UnsupportedFeatureError, match="modem control lines"):
            await port.wait_modem_event()
        with pytest.raises(UnsupportedFeatureError, match="error counters"):
            await port.error_counters()


async def test_driver_counts_are_reported_by_name(peer: PtyPeer, driver: EmulatedDriver) -> None:
    driver.counters.update(
        rx=100, tx=90, frame=1, overrun=2, parity=3, brk=4, buf_overrun=5, cts=7, dsr=8
    )
    async with await open_serial_port(peer.path) as port:
        counters = await port.error_counters()
    assert counters == ErrorCounters(
        received=100,
        sent=90,
        framing_errors=1,
        overruns=2,
        parity_errors=3,
        breaks=4,
        buffer_overruns=5,
    )
    assert counters.total_errors == 11


async def test_requested_lines_are_set_before_any_other_setting(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    driver.lines = RTS | DTR  # as an open does
    config = SerialConfig(initial_rts=False, initial_dtr=False)
    async with await open_serial_port(peer.path, config) as port:
        assert driver.lines == 0
        changes = [
            driver.requests.index(request) for request in (termios.TIOCMBIC, system_calls.TCSETS2)
        ]
        assert changes == sorted(changes)
        assert driver.requests.count(termios.TIOCMBIC) == 1  # one request for both lines
        driver.lines = DTR
        await port.configure(port.config.with_changes(baudrate=9600))
        assert driver.lines == DTR


async def test_port_without_lines_refuses_requested_lines(peer: PtyPeer) -> None:
    with pytest.raises(UnsupportedFeatureError, match="modem control lines"):
        await open_serial_port(peer.path, SerialConfig(initial_dtr=False))
    async with await open_serial_port(peer.path):
        pass


SWITCHED = RS485Config(software=True, delay_before_send=0.001, delay_after_send=0.001)


async def test_software_rs485_holds_the_line_until_the_last_bit(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    driver.lines = RTS
    async with await open_serial_port(peer.path, SerialConfig(rs485=SWITCHED)) as port:
        assert not driver.lines & RTS  # released from the start
        assert not driver.rs485[0] & 1  # the driver does not switch the line too
        driver.transmitter_empty = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.send, b"ask")
            assert await peer.read(3) == b"ask"
            seen = len(driver.requests)
            await until(lambda: system_calls.TIOCSERGETLSR in driver.requests[seen:])
            assert driver.lines & RTS
            driver.transmitter_empty = True
        assert not driver.lines & RTS


async def test_cancelled_send_releases_the_line_and_discards_unsent_bytes(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    async with await open_serial_port(peer.path, SerialConfig(rs485=SWITCHED)) as port:
        driver.output_queue = 3
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.send, b"ask")
            await until(lambda: driver.lines & RTS)
            seen = len(driver.requests)
            await until(lambda: termios.TIOCOUTQ in driver.requests[seen:])
            tasks.cancel_scope.cancel()
        assert not driver.lines & RTS
        assert driver.discarded_output == 3


async def test_disconnect_during_a_cancelled_send_is_detected(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    async with await open_serial_port(peer.path, SerialConfig(rs485=SWITCHED)) as port:
        driver.output_queue = 3

        async def cancel_send() -> None:
            await until(lambda: termios.TIOCOUTQ in driver.requests)
            driver.fail[termios.TCFLSH] = errno.EIO
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_send)
            with anyio.CancelScope() as scope, pytest.raises(SerialDisconnectedError):
                await port.send(b"ask")
        assert not port.is_open


async def test_inverted_polarity_is_applied(peer: PtyPeer, driver: EmulatedDriver) -> None:
    inverted = RS485Config(software=True, rts_on_send=False, rts_after_send=True)
    async with await open_serial_port(peer.path, SerialConfig(rs485=inverted)) as port:
        assert driver.lines & RTS
        states: list[int] = []
        driver.on_request = lambda request: states.append(driver.lines & RTS)
        await port.send(b"x")
        assert 0 in states
        assert driver.lines & RTS
