"""Differences of ``penstock.serial.compat`` from pyserial, and its additions."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import penstock.serial.compat as compat
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.blocking_calls import arrived, outcome
from tests.python.serial.pty_peer import PtyPeer


def test_silence_between_bytes_ends_a_read(peer: PtyPeer) -> None:
    with compat.Serial(peer.path, inter_byte_timeout=0.01) as port:
        peer.write(b"abc")
        arrived(port, 3)
        assert port.read(100) == b"abc"


def test_non_blocking_write_returns_the_count(peer: PtyPeer) -> None:
    # pyserial loops forever here.
    with compat.Serial(peer.path, write_timeout=0) as port:
        assert 0 < port.write(bytes(200_000)) < 200_000
        port.reset_output_buffer()


@pytest.mark.parametrize("timeout", [25 * 86_400, 1e10, 1e300, float("inf")])
def test_timeout_may_have_any_length(peer: PtyPeer, timeout: float) -> None:
    with compat.Serial(peer.path, timeout=timeout, write_timeout=timeout) as port:
        peer.write(b"abc")
        arrived(port, 3)
        port.cancel_read()  # ends the wait for the fourth byte
        assert port.read(4) == b"abc"
        port.cancel_write()
        assert 0 < port.write(bytes(200_000)) < 200_000
        port.reset_output_buffer()


def test_refused_setting_keeps_its_value(peer: PtyPeer) -> None:
    with compat.Serial(peer.path, 9600) as port:
        with pytest.raises(ValueError, match="baudrate must be"):
            port.baudrate = 0
        assert port.baudrate == 9600
        assert peer.settings()[4] == termios.B9600


def test_closing_ends_a_read_in_another_thread(peer: PtyPeer) -> None:
    port = compat.Serial(peer.path)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(outcome(lambda: port.read(1))))
    thread.start()
    port.close()
    thread.join(60)
    assert results in ([b""], ["PortNotOpenError"])


@pytest.mark.parametrize("call", ["read", "write"])
def test_signal_handler_may_close_the_port_during_a_call(peer: PtyPeer, call: str) -> None:
    script = f"""
import os, signal, sys, threading
import penstock.serial.compat as serial

port = serial.Serial({peer.path!r})
def end(*_):
    port.close()
    assert not port.is_open
signal.signal(signal.SIGUSR1, end)
def send():
    main = threading.main_thread().ident
    while not sys._current_frames()[main].f_code.co_qualname.startswith("Wait."):
        pass
    os.kill(os.getpid(), signal.SIGUSR1)
threading.Thread(target=send, daemon=True).start()
print(port.read(5) if {call!r} == "read" else port.write(bytes(200_000)) < 200_000)
print(port.fd)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["b''" if call == "read" else "True", "None"]


def test_bytes_before_a_disconnect_are_not_lost(peer: PtyPeer) -> None:
    with compat.Serial("loop://", timeout=0.01) as port:
        port.write(b"ab")
        assert port.read(5) == b"ab"
    with compat.Serial(peer.path) as port:
        peer.write(b"last")
        arrived(port, 4)
        results: list[Any] = []

        def read() -> None:
            results.append(port.read(10))
            results.append(outcome(lambda: port.read(10)))

        thread = threading.Thread(target=read)
        thread.start()
        while port.in_waiting:
            pass
        peer.unplug()
        thread.join(60)
    assert results == [b"last", "SerialException"]


@pytest.fixture
def wired(peer: PtyPeer) -> Iterator[tuple[compat.Serial, EmulatedDriver]]:
    driver = EmulatedDriver(peer.path)
    with driver.installed(), compat.Serial(peer.path) as port:
        yield port, driver


def test_lines_break_and_rs485_reach_the_driver(
    wired: tuple[compat.Serial, EmulatedDriver],
) -> None:
    port, driver = wired
    assert driver.lines & termios.TIOCM_RTS
    assert driver.lines & termios.TIOCM_DTR
    port.rts = False
    port.dtr = False
    assert not driver.lines & (termios.TIOCM_RTS | termios.TIOCM_DTR)
    driver.set_lines(termios.TIOCM_CTS | termios.TIOCM_RI, termios.TIOCM_CTS | termios.TIOCM_RI)
    assert (port.cts, port.dsr, port.ri, port.cd) == (True, False, True, False)
    port.break_condition = True
    assert driver.breaking
    port.break_condition = False
    port.send_break(0)
    assert not driver.breaking
    port.rs485_mode = compat.rs485.RS485Settings(delay_before_tx=0.002, loopback=True)
    assert driver.rs485[0] & 0x11 == 0x11
    assert driver.rs485[1] == 2
    port.rs485_mode = None
    assert not driver.rs485[0] & 1
    driver.has_rs485 = False
    with pytest.raises(compat.SerialException):
        port.rs485_mode = compat.rs485.RS485Settings()
    assert port.rs485_mode is None
    port.set_low_latency_mode(True)
    assert driver.flags & 0x2000
    port.set_low_latency_mode(False)
    driver.has_flags = False
    with pytest.raises(ValueError, match="low latency"):
        port.set_low_latency_mode(True)
    driver.has_flags = True


def test_lines_set_before_opening_apply_on_open(peer: PtyPeer) -> None:
    driver = EmulatedDriver(peer.path)
    with driver.installed():
        port = compat.Serial()
        port.port, port.rts, port.dtr = peer.path, False, True
        with port:
            assert not driver.lines & termios.TIOCM_RTS
            assert driver.lines & termios.TIOCM_DTR


def test_rs485_in_software_switches_rts_around_a_write(peer: PtyPeer) -> None:
    driver = EmulatedDriver(peer.path)
    levels: list[tuple[int, bool]] = []
    driver.on_request = lambda request: levels.append((request, bool(driver.lines & 4)))
    with driver.installed(), compat.rs485.RS485(peer.path) as port:
        port.rs485_mode = compat.rs485.RS485Settings(delay_before_tx=0.001)
        port.rts = False
        levels.clear()
        assert port.write(b"x") == 1
        assert (termios.TIOCOUTQ, True) in levels
        assert not driver.lines & termios.TIOCM_RTS


def test_closing_waits_for_unsent_output(peer: PtyPeer) -> None:
    driver = EmulatedDriver(peer.path)

    def send_a_byte(request: int) -> None:
        if request == termios.TIOCOUTQ and driver.output_queue:
            driver.output_queue -= 1

    with driver.installed():
        port = compat.Serial(peer.path)
        driver.output_queue = 5
        driver.on_request = send_a_byte
        port.close()
        assert (driver.output_queue, driver.discarded_output) == (0, 0)
        driver.on_request = lambda request: None
        port.open()
        driver.output_queue = 5
        port.close_at_once()
        assert driver.discarded_output == 5


FORKING = """
import os, sys, threading
import penstock.serial.compat as serial

port = serial.Serial(sys.argv[1], timeout=60)
got = []
reader = threading.Thread(target=lambda: got.append(port.read(5)))
reader.start()
child = os.fork()
if child == 0:
    port.write(b"child")
    port.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
port.write(b"parent")
reader.join()
assert got == [b"whole"], got
port.close()
"""


def test_forked_child_closes_only_its_copy(peer: PtyPeer) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKING, peer.path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    os.set_blocking(peer.fd, True)
    sent = b""
    while len(sent) < 11:
        sent += os.read(peer.fd, 100)
    assert sent == b"childparent"
    peer.write(b"whole")
    assert process.wait(60) == 0


def test_ports_are_found_by_a_pattern(monkeypatch: pytest.MonkeyPatch, peer: PtyPeer) -> None:
    from penstock.serial import PortInfo
    from penstock.serial.compat.tools import list_ports

    ports = [
        PortInfo(device="/dev/ttyS9", description="n/a"),
        PortInfo(device=peer.path, description="Flow meter", hwid="USB VID:PID=0403:6001"),
    ]
    monkeypatch.setattr(list_ports, "native_ports", lambda: ports)
    assert next(tuple(port) for port in list_ports.comports()) == ("/dev/ttyS9", "n/a", "n/a")
    assert [port.device for port in list_ports.grep("0403:6001")] == [peer.path]
    with compat.serial_for_url("hwgrep://flow METER") as port:
        assert port.name == peer.path
    with pytest.raises(compat.SerialException, match="no port matches 'flow'"):
        compat.serial_for_url("hwgrep://flow&n=2")
    with pytest.raises(ValueError, match="unknown option"):
        compat.serial_for_url("hwgrep://flow&m=2")


def test_ports_are_sorted_by_number() -> None:
    names = ["/dev/ttyS10", "/dev/ttyS9", "/dev/ttyACM0"]
    ours = sorted(compat.tools.list_ports.ListPortInfo(name) for name in names)
    assert [port.name for port in ours] == ["ttyACM0", "ttyS9", "ttyS10"]


def test_script_that_imports_serial_runs_after_install(peer: PtyPeer) -> None:
    script = f"""
import penstock.serial.compat
penstock.serial.compat.install()
import serial
import serial.tools.list_ports
from serial.serialutil import SerialException
from serial.threaded import LineReader
assert serial.Serial.__module__ == "penstock.serial.compat"
with serial.Serial({peer.path!r}, 19200, timeout=1) as ser:
    ser.write(b"hello")
    print(ser.name)
print(serial.tools.list_ports.comports() is not None, issubclass(SerialException, OSError))
"""
    done = run_python(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [peer.path, "True", "True"]
    assert os.read(peer.fd, 10) == b"hello"


def test_signal_handler_cannot_reopen_the_port_during_a_call(peer: PtyPeer) -> None:
    done = run_python(f"""
import os, signal, sys, threading
import penstock.serial.compat as serial

port = serial.Serial({peer.path!r})
handled = []
def reopen(*_):
    if handled:
        return
    handled.append(True)
    port.close()
    try:
        port.open()
    except serial.SerialException as error:
        print("when that call has returned" in str(error))
signal.signal(signal.SIGUSR1, reopen)
def send():
    main = threading.main_thread().ident
    while not sys._current_frames()[main].f_code.co_qualname.startswith("Wait."):
        pass
    while not handled:  # one that arrives just before poll(2) does not end it
        os.kill(os.getpid(), signal.SIGUSR1)
threading.Thread(target=send, daemon=True).start()
print(port.read(5), port.fd)
port.open()
print(port.is_open, port.in_waiting)
port.close()
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "b''", "None", "True", "0"]


MODULES = [
    *("serial.rfc2217", "serial.rs485", "serial.serialposix", "serial.serialutil"),
    *("serial.threaded", "serial.urlhandler", "serial.tools.list_ports"),
    *("serial.tools.list_ports_common", "serial.tools.list_ports_linux"),
    *("serial.tools.list_ports_posix", "serial.tools.miniterm"),
]


def test_after_install_pyserials_module_names_import_this_package() -> None:
    script = f"""
import importlib, penstock.serial.compat as compat
compat.install()
import serial.tools.list_ports_linux, serial.urlhandler.protocol_loop
for name in {MODULES!r}:
    module = importlib.import_module(name)
    assert module.__name__ == "penstock.serial.compat" + name.removeprefix("serial"), module
    assert eval(name) is module, name
assert serial.rfc2217.Serial is serial.serialposix.Serial is serial.Serial is compat.Serial
assert serial.serialutil.SerialBase is serial.SerialBase
assert issubclass(serial.Serial, serial.SerialBase)
port = serial.tools.list_ports_linux.SysFS("/dev/null")
assert isinstance(port, serial.tools.list_ports_common.ListPortInfo), port
assert tuple(port) == ("/dev/null", "n/a", "n/a"), tuple(port)
assert serial.tools.list_ports_common.numsplit("ttyS10x") == ["ttyS", 10, "x"]
"""
    done = run_python(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("use", "remedy"),
    [
        ("serial.rfc2217.PortManager", "serve_serial_port"),
        ("serial.tools.miniterm.Miniterm", "penstock term"),
        ("serial.tools.miniterm.main('/dev/ttyS0', 300, True)", "term /dev/ttyS0 --baud 300 --rts"),
    ],
)
def test_unsupported_feature_names_its_replacement(use: str, remedy: str) -> None:
    done = run_python(f"""
import penstock.serial.compat as compat
compat.install()
import serial.rfc2217, serial.tools.miniterm
{use}
""")
    assert done.returncode == 1
    assert remedy in done.stderr


def test_socket_logs_ignored_settings(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"socket://127.0.0.1:{listener.getsockname()[1]}"
        with caplog.at_level("INFO"), compat.Serial(url) as port:
            port.rts = False
            assert port.cts
    assert f"{url}: a socket has no RTS; ignored" in caplog.messages
    assert f"{url}: a socket has no CTS; reported as True" in caplog.messages


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )


def test_install_is_refused_if_pyserial_is_imported() -> None:
    import serial as pyserial

    assert sys.modules["serial"] is pyserial
    with pytest.raises(RuntimeError, match="pyserial is already imported"):
        compat.install()
