"""The blocking port: sending, lines, settings, closing, several threads."""

from __future__ import annotations

import errno
import gc
import os
import select
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from penstock.serial import (
    ConfigurationError,
    PortBusyError,
    PortNotFoundError,
    RS485Config,
    SerialClosedError,
    SerialConfig,
    SerialDisconnectedError,
    SerialStreamAttribute,
    UnsupportedFeatureError,
)
from penstock.serial import _blocking as blocking_waiter
from penstock.serial._tty import system_calls
from penstock.serial.sync import (
    SerialConnectable,
    SerialPort,
    configure_portal,
    open_serial_port,
)
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.blocking_calls import RECEIVES, in_thread, receives, wait_until
from tests.python.serial.pty_peer import PtyPeer

CTS, DSR, RI = (getattr(system_calls.termios, f"TIOCM_{name}") for name in ("CTS", "DSR", "RI"))


@pytest.fixture
def port(peer: PtyPeer) -> Iterator[SerialPort]:
    with open_serial_port(peer.path) as opened:
        yield opened


def test_bytes_pass_both_ways(port: SerialPort, peer: PtyPeer) -> None:
    peer.write(b"abcdef")
    assert port.receive(2) == b"ab"
    buffer = bytearray(2)
    assert port.receive_into(buffer) == 2
    assert buffer == b"cd"
    assert port.input_waiting() == 2
    assert port.receive_available() == b"ef"
    port.send(b"xy")
    port.send_buffer(memoryview(bytearray(b"z")))
    port.send(b"")
    port.send_eof()
    sent = b""
    while len(sent) < 3:  # a pty may deliver the writes separately
        select.select([peer.fd], [], [])
        sent += os.read(peer.fd, 10)
    assert sent == b"xyz"
    assert port.output_waiting() == 0


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_invalid_timeout_is_refused(port: SerialPort, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
        port.receive(timeout=timeout)
    for call in (port.modem_lines, port.control_lines, port.set_control_lines, port.error_counters):
        with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
            call(timeout=timeout)
    for call in (port.reset_input_buffer, port.reset_output_buffer, port.drain, port.send_eof):
        with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
            call(timeout=timeout)
    with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
        port.configure(SerialConfig(), timeout=timeout)


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_invalid_timeout_is_refused_by_calls_that_do_not_wait(
    port: SerialPort, peer: PtyPeer, timeout: float
) -> None:
    peer.write(b"abc")
    for receive in RECEIVES.values():
        with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
            receive(port, timeout)
    with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
        port.send(b"x", timeout=timeout)
    assert port.receive() == b"abc"


@pytest.mark.parametrize(
    "call",
    [
        lambda port: port.receive(timeout="x"),
        lambda port: port.receive_exactly(3, timeout="x"),
        lambda port: port.send(b"x", timeout="x"),
        lambda port: port.drain(timeout=[]),
        lambda port: port.close(timeout="x"),
    ],
)
def test_timeout_of_another_type_is_refused_in_one_sentence(
    port: SerialPort, call: Callable[[SerialPort], object]
) -> None:
    with pytest.raises(TypeError, match=r"must be a number of seconds, or None, not ('x'|\[\])"):
        call(port)
    assert port.is_open


def test_send_timeout_reports_the_sent_count(port: SerialPort, peer: PtyPeer) -> None:
    with pytest.raises(TimeoutError, match=r"(\d+) of 200000 bytes were sent") as caught:
        port.send(bytes(200_000), timeout=0.01)
    sent = int(str(caught.value).split(": ")[1].split()[0])
    received = 0
    while received < sent:
        received += len(os.read(peer.fd, 65_536))
    assert received == sent


def test_more_than_the_kernel_buffers_is_sent_completely(port: SerialPort, peer: PtyPeer) -> None:
    data = os.urandom(200_000)
    sent = in_thread(lambda: port.send(data))
    os.set_blocking(peer.fd, True)
    received = b""
    while len(received) < len(data):
        received += os.read(peer.fd, 65_536)
    sent()
    assert received == data


def test_closing_wakes_a_sender_and_a_break(peer: PtyPeer, driver: EmulatedDriver) -> None:
    for call in (lambda port: port.send(bytes(200_000)), lambda port: port.send_break(60)):
        port = open_serial_port(peer.path)
        waiting = in_thread(lambda call=call, port=port: call(port))  # type: ignore[misc]
        wait_until(port._operations.sending.lock.locked)
        port.close()
        with pytest.raises(SerialClosedError):
            waiting()
        assert not driver.breaking
        while True:
            try:
                os.read(peer.fd, 65_536)
            except BlockingIOError:
                break


def test_second_thread_is_refused_and_the_first_continues(port: SerialPort, peer: PtyPeer) -> None:
    first = in_thread(port.receive)
    wait_until(lambda: receives(port))
    for call in (port.receive, port.receive_available):
        with pytest.raises(anyio.BusyResourceError):
            call()
    peer.write(b"x")
    assert first() == b"x"


def test_threads_may_receive_and_send_concurrently(port: SerialPort, peer: PtyPeer) -> None:
    receiving = in_thread(lambda: port.receive_exactly(3))
    wait_until(lambda: receives(port))
    port.send(b"request")
    assert os.read(peer.fd, 100) == b"request"
    peer.write(b"yes")
    assert receiving() == b"yes"


CALLS: dict[str, Callable[[SerialPort], object]] = {
    **{name: lambda port, name=name: RECEIVES[name](port, 1) for name in RECEIVES},  # type: ignore[misc]
    "send": lambda port: port.send(b"x"),
    "send nothing": lambda port: port.send(b""),
    "drain": lambda port: port.drain(),
    "drain_exact": lambda port: port.drain_exact(),
    "send_break": lambda port: port.send_break(0),
    "configure": lambda port: port.configure(SerialConfig()),
    "modem_lines": lambda port: port.modem_lines(),
    "control_lines": lambda port: port.control_lines(),
    "set_control_lines": lambda port: port.set_control_lines(rts=True),
    "wait_modem_event": lambda port: port.wait_modem_event(timeout=1),
    "error_counters": lambda port: port.error_counters(),
    "reset_input_buffer": lambda port: port.reset_input_buffer(),
    "reset_output_buffer": lambda port: port.reset_output_buffer(),
    "input_waiting": lambda port: port.input_waiting(),
    "output_waiting": lambda port: port.output_waiting(),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_on_a_closed_port_raises_closed(port: SerialPort, call: str) -> None:
    port.close()
    port.close()
    assert not port.is_open
    with pytest.raises(SerialClosedError):
        CALLS[call](port)


@pytest.mark.parametrize("call", [name for name in CALLS if name != "send nothing"])
def test_every_call_on_an_unplugged_port_raises_disconnected(
    port: SerialPort, peer: PtyPeer, call: str
) -> None:
    peer.unplug()
    with pytest.raises(SerialDisconnectedError):
        CALLS[call](port)
    assert not port.is_open


def test_lines_break_counters_and_queues_work(peer: PtyPeer, driver: EmulatedDriver) -> None:
    with open_serial_port(peer.path) as port:
        port.set_control_lines(rts=True, dtr=False)
        assert port.control_lines().rts
        driver.set_lines(CTS, CTS)
        assert port.modem_lines().cts
        driver.counters["parity"] = 3
        assert port.error_counters().parity_errors == 3
        port.send_break(0)
        assert driver.requests[-2:] == [system_calls.TIOCSBRK, system_calls.TIOCCBRK]
        with pytest.raises(TimeoutError, match="cut short"):
            port.send_break(60, timeout=0)
        assert not driver.breaking
        driver.output_queue = 5
        with pytest.raises(TimeoutError, match="output is still waiting"):
            port.drain(timeout=0.01)
        with pytest.raises(TimeoutError):
            port.drain_exact(timeout=0)
        port.reset_output_buffer()
        port.drain()
        driver.transmitter_empty = None
        port.drain_exact()
        with pytest.raises(ConfigurationError):
            port.set_control_lines(rts=1)  # type: ignore[arg-type]


def test_line_change_ends_a_blocking_wait(peer: PtyPeer, driver: EmulatedDriver) -> None:
    with open_serial_port(peer.path) as port:
        with pytest.raises(TimeoutError, match="no line changed"):
            port.wait_modem_event(timeout=0.01)
        waiting = in_thread(lambda: port.wait_modem_event(cts=False))
        wait_until(lambda: system_calls.TIOCMIWAIT in driver.requests)
        driver.set_lines(CTS, CTS)
        driver.set_lines(RI, RI)
        driver.set_lines(RI, 0)
        event = waiting()
        assert event.ring
        assert not event.cts_changed


@pytest.mark.parametrize("counts", [True, False])
def test_closing_just_before_a_wait_for_a_line_ends_the_wait(
    peer: PtyPeer, driver: EmulatedDriver, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = open_serial_port(peer.path)
    name = "wait_readable" if counts else "sleep"
    wait = getattr(blocking_waiter.BlockingWaiter, name)
    if not counts:
        driver.fail[system_calls.TIOCMIWAIT] = errno.ENOTTY

    def close_first(*args: Any) -> Any:
        in_thread(port.close)()
        return wait(*args)

    monkeypatch.setattr(blocking_waiter.BlockingWaiter, name, close_first)
    with pytest.raises(SerialClosedError):
        port.wait_modem_event(timeout=60)


def test_software_rs485_sets_and_releases_the_line(peer: PtyPeer, driver: EmulatedDriver) -> None:
    config = SerialConfig(rs485=RS485Config(software=True, delay_before_send=0.001))
    with open_serial_port(peer.path, config) as port:
        states: list[tuple[int, int]] = []
        rts = system_calls.termios.TIOCM_RTS
        driver.on_request = lambda request: states.append((request, driver.lines & rts))
        port.send(b"x")
        assert os.read(peer.fd, 1) == b"x"
        assert (system_calls.termios.TIOCOUTQ, rts) in states
        assert not driver.lines & rts


def test_settings_are_changed_and_restored(peer: PtyPeer) -> None:
    with SerialConnectable(path=peer.path, config=SerialConfig(baudrate=9600)).connect() as port:
        assert port.config.baudrate == port.actual_baudrate == 9600
        port.configure(port.config.with_changes(baudrate=19_200))
        assert port.actual_baudrate == 19_200
        with pytest.raises(ConfigurationError):
            port.configure(None)  # type: ignore[arg-type]
        assert port.extra(SerialStreamAttribute.config) == port.config
        assert port.extra(SerialStreamAttribute.port_info, None) is port.port_info is None
        assert port.capabilities.modem_lines == "unsupported"
        assert port.path == peer.path
    assert peer.settings() == peer.found_as


def test_open_reports_its_error(peer: PtyPeer) -> None:
    configure_portal(backend="trio")
    with pytest.raises(PortNotFoundError):
        open_serial_port("/dev/ttyNONE9")
    with pytest.raises(UnsupportedFeatureError):
        SerialPort.open("/dev/null", baudrate=9600)
    with pytest.raises(ValueError, match="not both"):
        SerialPort.open(peer.path, SerialConfig(), baudrate=9600)
    with open_serial_port(peer.path, timeout=5), pytest.raises(PortBusyError):
        open_serial_port(peer.path)


def test_forgotten_port_is_closed_with_a_warning(peer: PtyPeer) -> None:
    port = open_serial_port(peer.path)
    descriptor = port._device.fileno()
    with pytest.warns(ResourceWarning, match=f"{peer.path} was never closed"):
        del port
        gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_driver_error_is_mapped(peer: PtyPeer, driver: EmulatedDriver) -> None:
    with open_serial_port(peer.path) as port:
        driver.fail[system_calls.TIOCMIWAIT] = errno.ENOTTY
        driver.fail[system_calls.TIOCGICOUNT] = errno.ENOTTY
        with pytest.raises(UnsupportedFeatureError):
            port.error_counters()
        waiting = in_thread(port.wait_modem_event)  # polls the lines instead
        wait_until(lambda: system_calls.TIOCMIWAIT in driver.requests)
        driver.set_lines(DSR, DSR)
        assert waiting().dsr_changed
