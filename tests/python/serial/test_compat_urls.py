"""``penstock.serial.compat`` and pyserial with URLs: sockets, loops, handlers of a program."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import serial as pyserial
import serial.rs485
import serial.threaded
import serial.tools.list_ports

import penstock.serial.compat as compat
from tests.python.serial.pty_peer import PtyPeer

BOTH = pytest.mark.parametrize("serial", [pyserial, compat], ids=["pyserial", "compat"])


@contextmanager
def tcp_echo() -> Iterator[str]:
    """Run a TCP echo server for one client; yield the client's URL."""

    def serve() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            while data := connection.recv(65_536):
                connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"socket://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join()


@BOTH
def test_socket_lines_read_as_constants(serial: Any) -> None:
    with tcp_echo() as url, serial.serial_for_url(url, timeout=60) as port:
        port.rts = False
        port.dtr = False
        port.break_condition = True
        port.send_break(0)
        assert (port.cts, port.dsr, port.ri, port.cd) == (True, True, False, True)
        assert (port.rts, port.dtr) == (False, False)
        port.write(b"echo")
        assert port.read(4) == b"echo"


@BOTH
@pytest.mark.parametrize("name", ["cts", "dsr", "ri", "cd"])
def test_lines_of_a_closed_socket_raise_an_error(serial: Any, name: str) -> None:
    port = serial.serial_for_url("socket://127.0.0.1:9", do_not_open=True)
    with pytest.raises(serial.PortNotOpenError):
        getattr(port, name)


@BOTH
def test_only_a_loop_is_closed_for_python(serial: Any) -> None:
    with serial.serial_for_url("loop://") as port:
        assert not port.closed
    assert port.closed
    assert not port.is_open
    with tcp_echo() as url:
        port = serial.serial_for_url(url)
        port.close()
        assert not port.closed


@BOTH
def test_write_to_a_loop_too_slow_for_the_timeout_writes_nothing(serial: Any) -> None:
    with serial.serial_for_url("loop://", 300, timeout=0, write_timeout=0.1) as port:
        with pytest.raises(serial.SerialTimeoutException):
            port.write(bytes(100))
        assert port.read(1) == b""
        assert port.write(b"abc") == 3
        assert port.read(3) == b"abc"


@BOTH
def test_write_to_a_slow_loop_can_be_cancelled(serial: Any) -> None:
    with serial.serial_for_url("loop://", 300, timeout=0, write_timeout=3000) as port:
        written: list[int] = []
        thread = threading.Thread(target=lambda: written.append(port.write(bytes(100_000))))
        thread.start()
        while thread.is_alive():  # pyserial ignores a cancel before the write
            port.cancel_write()
            thread.join(0.05)
        assert written == [0]


@BOTH
def test_url_selects_the_port_class(serial: Any, peer: PtyPeer) -> None:
    with serial.serial_for_url(f"alt://{peer.path}?class=PosixPollSerial") as port:
        assert port.name == peer.path
        assert isinstance(port, serial.PosixPollSerial)
    for wrong in ("class=open", "class=SerialException", "class=nothing"):
        with pytest.raises((ValueError, TypeError)):
            serial.serial_for_url(f"alt://{peer.path}?{wrong}")
    with pytest.raises(serial.SerialException):
        serial.serial_for_url(f"alt://{peer.path}?colour=red")


HANDLER = """
from {package} import PortNotOpenError, SerialBase, to_bytes

class Serial(SerialBase):
    done = []

    def open(self):
        self._reconfigure_port()
        self.is_open = True

    def close(self):
        self.is_open = False

    def _reconfigure_port(self):
        self.done.append(("baudrate", self.baudrate))

    def _update_rts_state(self):
        self.done.append(("rts", self._rts_state))

    def _update_dtr_state(self):
        self.done.append(("dtr", self._dtr_state))

    def _update_break_state(self):
        self.done.append(("break", self._break_state))

    @property
    def in_waiting(self):
        return 3

    def read(self, size=1):
        return b"abc"[:size]

    def write(self, data):
        self.done.append(to_bytes(data))
        return len(data)
"""


@BOTH
def test_program_can_register_its_own_url_handler(
    serial: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"handlers_for_{serial.__name__.replace('.', '_')}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    source = HANDLER.format(package=f"{serial.__name__}.serialutil")
    (tmp_path / package / "protocol_mine.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="'mine' not known"):
        serial.serial_for_url("mine://")
    serial.protocol_handler_packages.append(package)
    try:
        with serial.serial_for_url("MINE://", 19_200) as port:
            assert isinstance(port, serial.SerialBase)
            port.rts = False
            port.dtr = True
            port.baudrate = 300
            port.send_break(0)
            port.write(b"out")
            assert port.read_all() == b"abc"
            buffer = bytearray(2)
            assert port.readinto(buffer) == 2
            assert buffer == b"ab"
            assert port.done == [
                *(("baudrate", 19_200), ("rts", False), ("dtr", True), ("baudrate", 300)),
                *(("break", True), ("break", False), b"out"),
            ]
    finally:
        serial.protocol_handler_packages.remove(package)


@BOTH
@pytest.mark.parametrize("url", ["rfc2217://127goingtofail", "socket://:1"])
def test_malformed_url_raises_serial_exception_on_open(serial: Any, url: str) -> None:
    port = serial.serial_for_url(url, do_not_open=True)
    with pytest.raises(serial.SerialException):
        port.open()
    assert not port.is_open
    port.close()


@BOTH
def test_unknown_scheme_raises_value_error(serial: Any) -> None:
    with pytest.raises(ValueError, match="protocol 'gopher' not known"):
        serial.serial_for_url("gopher://x")
    port = serial.serial_for_url("loop://", do_not_open=True, baudrate=300)
    assert (port.is_open, port.baudrate) == (False, 300)
