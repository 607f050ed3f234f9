"""Receiving with the blocking port: timeouts, threads, signals, the answer after a send."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from penstock.serial import (
    SerialClosedError,
    SerialDisconnectedError,
)
from penstock.serial._blocking import Wait, WakeUp
from penstock.serial.sync import (
    SerialPort,
    open_serial_port,
)
from tests.python.serial.blocking_calls import RECEIVES, in_thread, receives, wait_until
from tests.python.serial.pty_peer import PtyPeer
from tests.python.serial.rfc2217_serving import served_by_rfc2217


@pytest.fixture
def port(peer: PtyPeer) -> Iterator[SerialPort]:
    with open_serial_port(peer.path) as opened:
        yield opened


def test_receive_waits_for_the_first_byte(port: SerialPort, peer: PtyPeer) -> None:
    received = in_thread(port.receive)
    wait_until(lambda: receives(port))
    peer.write(b"late")
    assert received()[0:1] == b"l"


def test_lines_and_counts_are_received_completely(port: SerialPort, peer: PtyPeer) -> None:
    peer.write(b"one\rtwo\rrest")
    assert port.receive_until(b"\r") == b"one"
    assert port.receive_until(b"\r", timeout=10) == b"two"
    assert port.receive_exactly(4) == b"rest"
    peer.write(b"no end")
    with pytest.raises(anyio.DelimiterNotFound):
        port.receive_until(b"\r", 4)
    assert port.receive_exactly(6) == b"no end"


@pytest.mark.parametrize("call", RECEIVES)
@pytest.mark.parametrize("timeout", [0, 0.01])
def test_receive_timeout_raises_timeout_error(
    port: SerialPort, peer: PtyPeer, call: str, timeout: float
) -> None:
    with pytest.raises(TimeoutError, match=f"{peer.path}: .* was received within"):
        RECEIVES[call](port, timeout)
    assert port.is_open
    peer.write(b"abc\r")
    assert RECEIVES[call](port, 60)


@pytest.mark.parametrize("call", ["receive_exactly", "receive_until"])
def test_bytes_before_the_timeout_are_not_lost(port: SerialPort, peer: PtyPeer, call: str) -> None:
    peer.write(b"abc")
    with pytest.raises(TimeoutError):
        RECEIVES[call](port, 0.01)
    assert port.input_waiting() == 3
    assert port.receive() == b"abc"


LONG_TIMES = [25 * 86_400, 1e10, 1e300]


@pytest.mark.parametrize("timeout", LONG_TIMES)
def test_timeout_may_have_any_length(port: SerialPort, peer: PtyPeer, timeout: float) -> None:
    port.send(b"question")  # a receive after a send waits before it reads
    peer.write(b"answer")
    assert port.receive_exactly(6, timeout=timeout) == b"answer"


@pytest.mark.parametrize("seconds", LONG_TIMES)
def test_wait_on_a_large_descriptor_may_have_any_length(peer: PtyPeer, seconds: float) -> None:
    large = fcntl.fcntl(peer._follower, fcntl.F_DUPFD_CLOEXEC, 1024)
    wake = WakeUp()
    try:
        peer.raw()
        peer.write(b"answer")
        assert Wait(wake, large, select.POLLIN).until(time.monotonic() + seconds)
    finally:
        wake.close()
        os.close(large)


@pytest.mark.parametrize("call", RECEIVES)
def test_closing_from_another_thread_wakes_a_receiver(port: SerialPort, call: str) -> None:
    waiting = in_thread(lambda: RECEIVES[call](port, 60))
    wait_until(lambda: receives(port))
    port.close()
    with pytest.raises(SerialClosedError):
        waiting()


def test_signal_handler_may_close_the_port_during_receive(port: SerialPort, peer: PtyPeer) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: port.close())
    main = threading.get_ident()
    try:

        def interrupt() -> None:
            wait_until(lambda: receives(port))
            signal.pthread_kill(main, signal.SIGUSR1)

        done = in_thread(interrupt)
        with pytest.raises(SerialClosedError):
            port.receive(timeout=60)
        done()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert port._device.fileno() == -1
    with open_serial_port(peer.path):
        pass


@pytest.mark.parametrize("call", RECEIVES)
def test_receive_after_a_send_reads_only_when_the_answer_arrives(
    port: SerialPort, peer: PtyPeer, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations, refusals = port._operations, []

    def counting(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def counted(argument: Any) -> Any:
            try:
                return read(argument)
            except BlockingIOError as exc:
                refusals.append(exc)
                raise

        return counted

    monkeypatch.setattr(operations, "_read", counting(operations._read))
    monkeypatch.setattr(operations, "_readinto", counting(operations._readinto))
    for _ in range(2):
        port.send(b"?")
        received = in_thread(lambda: RECEIVES[call](port, 60))
        wait_until(lambda: receives(port) and not operations._answer_is_due)
        peer.write(b"abc\r")
        assert received()
    assert not refusals
    with pytest.raises(TimeoutError):
        RECEIVES[call](port, 0.01)
    assert len(refusals) == 1, "without a send before it, a receive reads first"


@pytest.mark.parametrize("call", RECEIVES)
@pytest.mark.parametrize("asked", [False, True], ids=["", "asked"])
def test_pending_bytes_are_received_after_a_send(
    port: SerialPort, peer: PtyPeer, call: str, asked: bool
) -> None:
    peer.write(b"abc\r")
    if asked:
        port.send(b"?")
    assert RECEIVES[call](port, 60)


@pytest.mark.parametrize("call", RECEIVES)
@pytest.mark.parametrize("end", ["closed", "unplugged"])
def test_end_of_the_port_is_reported_by_a_receive_after_a_send(
    port: SerialPort, peer: PtyPeer, call: str, end: str
) -> None:
    port.send(b"?")
    if end == "closed":
        port.close()
    else:
        peer.unplug()
    with pytest.raises(SerialClosedError if end == "closed" else SerialDisconnectedError):
        RECEIVES[call](port, 60)


def test_bytes_buffered_by_the_device_are_received_after_a_send(peer: PtyPeer) -> None:
    with served_by_rfc2217(peer.path) as url, open_serial_port(url) as port:
        peer.write(b"abcd")
        wait_until(lambda: port.input_waiting() == 4)
        assert port.receive(1, timeout=60) == b"a"
        port.send(b"?")
        assert port.receive(1, timeout=60) == b"b"
        port.send(b"?")
        assert port.receive_exactly(2, timeout=60) == b"cd"


def test_signal_does_not_end_a_receive(port: SerialPort, peer: PtyPeer) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: peer.write(b"x"))
    main = threading.get_ident()
    try:

        def interrupt() -> None:
            wait_until(lambda: receives(port))
            signal.pthread_kill(main, signal.SIGUSR1)

        done = in_thread(interrupt)
        assert port.receive(timeout=60) == b"x"
        done()
    finally:
        signal.signal(signal.SIGUSR1, before)
