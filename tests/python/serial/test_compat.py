"""``penstock.serial.compat`` behaves like pyserial: the same steps on both, on ptys."""

from __future__ import annotations

import inspect
import io
import math
import os
import select
import sys
import termios
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import serial as pyserial
import serial.rs485
import serial.threaded
import serial.tools.list_ports
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock.serial.compat as compat
from tests.python.serial.blocking_calls import arrived, outcome
from tests.python.serial.pty_peer import PtyPeer

BOTH = pytest.mark.parametrize("serial", [pyserial, compat], ids=["pyserial", "compat"])


def on_a_closed_port(result: Any) -> Any:
    # pyserial does not always check its arguments and passes None to the kernel.
    return "PortNotOpenError" if result == "TypeError" else result


def run_steps(module: ModuleType, steps: list[tuple[Any, ...]]) -> list[Any]:
    """Run ``steps`` with a port of ``module`` on a new pty; return the result of each."""
    results: list[Any] = []
    with PtyPeer() as peer:
        port = module.Serial(peer.path, timeout=0, write_timeout=5)
        queued = 0
        for name, *args in steps:
            if name == "peer sends":
                peer.write(args[0])
                queued += len(args[0])
                if port.is_open:
                    arrived(port, queued)
            elif name == "set":
                results.append(outcome(lambda args=args: setattr(port, *args)))
                results.append(outcome(lambda args=args: getattr(port, args[0])))
            elif name == "get":
                result = outcome(lambda args=args: getattr(port, args[0]))
                results.append(result if port.is_open else on_a_closed_port(result))
            else:
                was_open = port.is_open
                result = outcome(lambda name=name, args=args: getattr(port, name)(*args))
                results.append(result if was_open else on_a_closed_port(result))
                if name in ("read", "read_all", "readline") and isinstance(result, bytes):
                    queued -= len(result)
                if name in ("reset_input_buffer", "flushInput", "close"):
                    queued = 0
                if name == "write" and isinstance(result, int):
                    wait_until_readable(peer.fd, result)
                    results.append(os.read(peer.fd, result) if result else b"")
        results.append(sorted(port.get_settings().items(), key=str))
        port.close()
    return ["PORT" if result == peer.path else result for result in results]


def wait_until_readable(fd: int, count: int) -> None:
    while count and fionread(fd) < count:
        select.select([fd], [], [], 1)


def fionread(fd: int) -> int:
    import fcntl

    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


# Without 7 bits and parity: a pty accepts neither, and pyserial raises termios.error for them.
small = st.binary(min_size=1, max_size=40)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("peer sends"), small),
        st.tuples(st.just("read"), st.integers(0, 60)),
        st.tuples(st.sampled_from(["read_all", "readline", "inWaiting", "isOpen"])),
        st.tuples(st.just("write"), st.one_of(small, small.map(bytearray), small.map(list))),
        st.tuples(st.just("write"), st.sampled_from(["text", 5, None, b"", [256]])),
        st.tuples(st.sampled_from(["reset_input_buffer", "reset_output_buffer", "flush"])),
        st.tuples(st.sampled_from(["readable", "writable", "seekable"])),
        st.tuples(st.just("get"), st.sampled_from(["in_waiting", "out_waiting", "name", "port"])),
        st.tuples(st.just("get"), st.sampled_from(["rts", "dtr", "break_condition", "closed"])),
        st.tuples(
            st.just("get"), st.sampled_from(["is_open", "portstr", "exclusive", "rs485_mode"])
        ),
        st.tuples(
            st.just("set"),
            st.just("baudrate"),
            st.sampled_from([300, 9600, 57600, 250_000, -1, "9600", None]),
        ),
        st.tuples(st.just("set"), st.just("bytesize"), st.sampled_from([8, 9, "8", None])),
        st.tuples(st.just("set"), st.just("parity"), st.sampled_from(["N", "X", None])),
        st.tuples(st.just("set"), st.just("stopbits"), st.sampled_from([1, 1.5, 2, 3, None])),
        st.tuples(st.just("set"), st.just("write_timeout"), st.sampled_from([0, 5, 7.5, -1])),
        st.tuples(st.just("set"), st.just("timeout"), st.sampled_from([0, -1, "x"])),
        st.tuples(st.just("set"), st.just("xonxoff"), st.booleans()),
        st.tuples(st.just("set"), st.just("inter_byte_timeout"), st.sampled_from([None, -0.5])),
        st.tuples(st.sampled_from(["close", "open"])),
    ),
    max_size=20,
)


@settings(max_examples=60)
@given(steps)
def test_same_steps_give_the_same_results_as_pyserial(sequence: list[tuple[Any, ...]]) -> None:
    assert run_steps(compat, sequence) == run_steps(pyserial, sequence)


def public_names(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_every_public_name_of_pyserial_exists() -> None:
    # Names of pyserial's implementation that no program uses.
    internals = {
        *("absolute_import", "basestring", "unicode", "memoryview", "serialwin32"),
        *("io", "time", "os", "sys", "importlib"),
    }
    import penstock.serial.compat.rfc2217
    import penstock.serial.compat.serialposix
    import penstock.serial.compat.urlhandler  # noqa: F401 - as pyserial has them once imported

    assert public_names(pyserial) - internals <= public_names(compat)
    ours, theirs = compat.Serial(), pyserial.Serial()
    internals = {"BAUDRATE_CONSTANTS", "TIOCSBRK", "TIOCCBRK"}
    assert public_names(theirs) - internals <= public_names(ours)
    assert public_names(pyserial.rs485.RS485Settings()) <= public_names(
        compat.rs485.RS485Settings()
    )
    assert set(serial.threaded.__dict__) & {"Protocol", "Packetizer", "LineReader"} <= public_names(
        compat.threaded
    )
    theirs_info = serial.tools.list_ports.comports.__globals__["list_ports_common"].ListPortInfo(
        "x"
    )
    assert public_names(theirs_info) <= public_names(compat.tools.list_ports.ListPortInfo("x"))


@pytest.mark.parametrize("name", ["Serial"])
def test_constructors_accept_the_same_arguments(name: str) -> None:
    ours = inspect.signature(compat.Serial.__init__).parameters
    theirs = inspect.signature(pyserial.Serial.__init__).parameters
    assert list(ours) == list(theirs)
    assert {k: v.default for k, v in ours.items()} == {k: v.default for k, v in theirs.items()}


CLASSES = {
    "Serial": (pyserial.Serial, compat.Serial),
    "RS485": (serial.rs485.RS485, compat.rs485.RS485),
    "ReaderThread": (serial.threaded.ReaderThread, compat.threaded.ReaderThread),
    "LineReader": (serial.threaded.LineReader, compat.threaded.LineReader),
    "FramedPacket": (serial.threaded.FramedPacket, compat.threaded.FramedPacket),
    "Timeout": (pyserial.Timeout, compat.Timeout),
}


@pytest.mark.parametrize("name", CLASSES)
def test_methods_accept_the_same_positional_and_keyword_arguments(name: str) -> None:
    theirs, ours = CLASSES[name]
    for method in sorted(public_names(theirs)):
        if inspect.isfunction(getattr(theirs, method)):
            assert arguments(getattr(ours, method)) == arguments(getattr(theirs, method)), method


def arguments(function: Any) -> list[tuple[Any, ...]]:
    parameters = inspect.signature(function).parameters.values()
    return [(item.name, item.kind, item.default) for item in parameters]


@BOTH
def test_reads_and_writes_accept_keyword_arguments(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path, timeout=10) as port:
        assert port.write(data=b"question") == 8
        wait_until_readable(peer.fd, 8)
        assert os.read(peer.fd, 8) == b"question"
        peer.write(b"answer")
        assert port.read(size=4) == b"answ"
        buffer = bytearray(2)
        assert port.readinto(b=buffer) == 2
        assert buffer == b"er"


@BOTH
def test_timeout_uses_the_clock_of_its_class(serial: Any) -> None:
    now = 1000.0

    class OwnClock(serial.Timeout):  # type: ignore[misc]
        def TIME(self) -> float:
            return now

    span = OwnClock(10)
    assert (span.target_time, span.time_left(), span.expired()) == (1010, 10, False)
    now = 1004.0
    assert span.time_left() == 6
    now = 100.0  # the clock was set back: the timeout starts again
    assert (span.time_left(), span.target_time) == (10, 110)
    now = 5000.0
    assert (span.time_left(), span.expired()) == (0, True)
    span.restart(5)
    assert (span.target_time, span.expired()) == (5005, False)


@BOTH
@pytest.mark.parametrize("duration", [None, 0])
def test_timeout_of_zero_or_none_is_supported(serial: Any, duration: float | None) -> None:
    span = serial.Timeout(duration)
    assert (span.is_infinite, span.is_non_blocking) == (duration is None, duration == 0)
    assert (span.time_left(), span.expired()) == (duration, duration == 0)


@pytest.mark.parametrize("name", compat.serialutil.__all__)
def test_constants_equal_those_of_pyserial(name: str) -> None:
    ours, theirs = getattr(compat, name), getattr(pyserial, name)
    if isinstance(theirs, bytes | str | int | float | dict):
        assert ours == theirs


@BOTH
def test_settings_reach_the_tty(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path, 19_200, stopbits=serial.STOPBITS_TWO, xonxoff=True) as port:
        found = peer.settings()
        assert found[4] == termios.B19200
        assert found[2] & termios.CSTOPB
        assert found[0] & termios.IXON
        port.baudrate = 38_400
        port.xonxoff = False
        assert peer.settings()[4] == termios.B38400
        assert not peer.settings()[0] & termios.IXON
        saved = port.get_settings()
        port.apply_settings({"baudrate": 1200})
        assert peer.settings()[4] == termios.B1200
        port.apply_settings(saved)
        assert peer.settings()[4] == termios.B38400


@BOTH
def test_opening_discards_pending_input(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path, timeout=0) as port:
        peer.write(b"old")
        arrived(port, 3)
        port.reset_input_buffer()
        assert port.in_waiting == 0


@BOTH
def test_absent_port_raises_serial_exception(serial: Any) -> None:
    with pytest.raises(serial.SerialException, match="could not open port /dev/ttyUSB97") as caught:
        serial.Serial("/dev/ttyUSB97")
    assert caught.value.errno == 2
    assert isinstance(caught.value, OSError)


def test_absent_port_is_named_once_with_the_remedy(tmp_path: Path) -> None:
    for name in ("/dev/ttyUSB97", str(tmp_path)):
        with pytest.raises(compat.SerialException) as caught:
            compat.Serial(name)
        assert str(caught.value).count(name) == 1
        assert str(caught.value).startswith("[Errno")
        assert f"could not open port {name}: " in str(caught.value)


@BOTH
def test_calls_on_a_closed_port_raise_port_not_open(serial: Any, peer: PtyPeer) -> None:
    port = serial.Serial(peer.path)
    port.close()
    port.close()
    for call in (port.read, port.flush, port.reset_input_buffer, port.fileno, port.send_break):
        with pytest.raises(serial.PortNotOpenError):
            call()
    with pytest.raises(serial.PortNotOpenError):
        port.write(b"x")
    with pytest.raises(serial.SerialException, match="must be configured"):
        serial.Serial().open()
    port.open()
    with pytest.raises(serial.SerialException, match="already open"):
        port.open()
    port.close()


@BOTH
def test_exclusive_port_cannot_be_opened_twice(serial: Any, peer: PtyPeer) -> None:
    with (
        serial.Serial(peer.path, exclusive=True),
        pytest.raises(serial.SerialException),
    ):
        serial.Serial(peer.path, exclusive=True)
    with serial.Serial(peer.path), serial.Serial(peer.path):
        pass  # without exclusive=True it may be opened twice


@BOTH
def test_unplugged_device_raises_serial_exception(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path) as port:
        peer.unplug()
        with pytest.raises(serial.SerialException):
            port.read()


@BOTH
def test_read_returns_partial_data_after_its_timeout(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path, timeout=0.05) as port:
        assert port.read(5) == b""
        peer.write(b"abc")
        arrived(port, 3)
        assert port.read(5) == b"abc"
        assert port.read_until(b"\r") == b""


@BOTH
def test_read_until_stops_at_its_terminator(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path, timeout=60) as port:
        peer.write(b"one\r\ntwo\nthree")
        arrived(port, 14)
        assert port.read_until(b"\r\n") == b"one\r\n"
        assert port.readline() == b"two\n"
        assert port.read_until(size=3) == b"thr"
        assert port.read_all() == b"ee"
        peer.write(b"x;y;z;")
        arrived(port, 6)
        parts = port.iread_until(b";")
        assert [next(parts) for _ in range(3)] == [b"x;", b"y;", b"z;"]
        port.timeout = 0.01
        assert list(parts) == []
        buffer = bytearray(4)
        peer.write(b"ab")
        arrived(port, 2)
        assert port.readinto(buffer) == 2
        assert buffer == b"ab\0\0"


@BOTH
def test_write_to_a_full_port_times_out_or_returns_the_count(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path, write_timeout=0.05) as port:
        with pytest.raises(serial.SerialTimeoutException):
            port.write(bytes(200_000))
        port.reset_output_buffer()


@BOTH
def test_waiting_read_can_be_cancelled(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path) as port:
        results: list[bytes] = []
        thread = threading.Thread(target=lambda: results.append(port.read(10)))
        thread.start()
        port.cancel_read()  # ends the read, whether it waits already or not
        thread.join(60)
        assert results == [b""]
        peer.write(b"later")
        assert port.read(5) == b"later"


@BOTH
def test_waiting_write_can_be_cancelled(serial: Any, peer: PtyPeer) -> None:
    with serial.Serial(peer.path) as port:
        results: list[int] = []
        thread = threading.Thread(target=lambda: results.append(port.write(bytes(200_000))))
        thread.start()
        port.cancel_write()
        thread.join(60)
        assert len(results) == 1
        assert results[0] < 200_000
        port.reset_output_buffer()


def test_cancellation_affects_at_most_the_next_call(peer: PtyPeer) -> None:
    with compat.Serial(peer.path, timeout=60, write_timeout=0.05) as port:
        port.cancel_read()
        port.cancel_write()
        assert port.write(b"through") == 7
        peer.write(b"a")
        arrived(port, 1)
        assert port.read(1) == b"a"
        with pytest.raises(compat.SerialTimeoutException):
            port.write(bytes(200_000))
        port.reset_output_buffer()
        port.timeout = 0.2
        later = threading.Thread(target=lambda: peer.write(b"b"))
        assert port._use is not None
        waits = port._use.receiving.wait
        wait = waits.until

        def wait_until_sent(deadline: float) -> bool | None:
            later.start()
            return wait(math.inf)

        waits.until = wait_until_sent  # type: ignore[method-assign]
        assert port.read(1) == b"b"
        later.join()


@BOTH
def test_port_can_be_wrapped_as_a_text_file(serial: Any) -> None:
    with serial.serial_for_url("loop://", timeout=1) as port:
        text = io.TextIOWrapper(io.BufferedRWPair(port, port), newline="\n")
        text.write("hello\n")
        text.flush()
        assert text.readline() == "hello\n"
        text.detach()


@BOTH
def test_reader_thread_delivers_lines(serial: Any) -> None:
    lines: list[str] = []
    all_here = threading.Event()
    lost: list[Any] = []

    class Lines(serial.threaded.LineReader):
        def handle_line(self, line: str) -> None:
            lines.append(line)
            if len(lines) == 2:
                all_here.set()

        def connection_lost(self, exc: Exception | None) -> None:
            lost.append(exc)

    port = serial.serial_for_url("loop://", timeout=1)
    with serial.threaded.ReaderThread(port, Lines) as protocol:
        protocol.write_line("grüße")
        protocol.write_line("")
        assert all_here.wait(60)
    assert lines == ["grüße", ""]
    assert lost == [None]
    assert not port.is_open


@BOTH
def test_reader_thread_delivers_framed_packets(serial: Any) -> None:
    class Frames(serial.threaded.FramedPacket):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[bytes] = []
            self.between = b""

        def handle_packet(self, packet: bytes) -> None:
            self.found.append(packet)

        def handle_out_of_packet_data(self, data: bytes) -> None:
            self.between += data

    frames = Frames()
    for piece in (b"x(a", b"b)y(", b")"):
        frames.data_received(piece)
    assert (frames.found, frames.between) == ([b"ab", b""], b"xy")
