"""``serial.Serial`` as pyserial 3.5 has it, on this package's devices."""

from __future__ import annotations

import contextlib
import os
import select
import termios
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Self

from penstock.serial import ttyioctl
from penstock.serial.backend import SerialBackend
from penstock.serial.compat.interruptible import InterruptibleWait
from penstock.serial.compat.rs485settings import RS485Settings
from penstock.serial.compat.serialutil import (
    EIGHTBITS,
    LF,
    PARITY_NONE,
    STOPBITS_ONE,
    PortNotOpenError,
    SerialException,
    SerialTimeoutException,
    to_bytes,
)
from penstock.serial.compat.settings import SerialSettings
from penstock.serial.compat.translation import translated, translation
from penstock.serial.drain import CLOSE_LINGER_S, nap_for
from penstock.serial.exceptions import (
    SerialError,
    UnsupportedFeatureError,
    disconnected_error,
)
from penstock.serial.urls import open_backend

__all__ = ["Serial"]

_LONGEST_NAP_S = 0.01
_READ_AT_ONCE = 65_536


class Serial(SerialSettings):
    """A serial port with pyserial's attributes, methods, defaults and exceptions.

    Unlike pyserial's, it opens URLs too, and a setting that a device refuses keeps its value.
    One thread may read while another writes; any may cancel either, or close the port.
    """

    def __init__(
        self,
        port: str | None = None,
        baudrate: int = 9600,
        bytesize: int = EIGHTBITS,
        parity: str = PARITY_NONE,
        stopbits: float = STOPBITS_ONE,
        timeout: float | None = None,
        xonxoff: bool = False,
        rtscts: bool = False,
        write_timeout: float | None = None,
        dsrdtr: bool | None = False,
        inter_byte_timeout: float | None = None,
        exclusive: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep the settings, and open *port* unless it is None."""
        self._device: SerialBackend | None = None
        self._reading = threading.RLock()
        self._writing = threading.RLock()
        self._port: str | None = None
        self._rs485_mode: RS485Settings | None = None
        self._reader = self._writer = 0  # the threads within read and write
        self._close_put_off = False
        self._in_a_hurry = threading.Event()
        self._rts_state = True
        self._dtr_state = True
        self._break_state = False
        self.is_open = False
        self.portstr: str | None = None
        self.name: str | None = None
        self.port = port
        self.baudrate = baudrate
        self.bytesize = bytesize
        self.parity = parity
        self.stopbits = stopbits
        self.timeout = timeout
        self.write_timeout = kwargs.pop("writeTimeout", write_timeout)
        self.xonxoff = xonxoff
        self.rtscts = rtscts
        self.dsrdtr = dsrdtr
        self.inter_byte_timeout = kwargs.pop("interCharTimeout", inter_byte_timeout)
        self.exclusive = exclusive
        if kwargs:
            raise ValueError(f"unexpected keyword arguments: {kwargs!r}")
        if port is not None:
            self.open()

    # ---- opening and closing -------------------------------------------------------------------

    def open(self) -> None:
        """Open ``port`` with the present settings; SerialException where that is not possible."""
        if self._port is None:
            raise SerialException("Port must be configured before it can be used.")
        if self.is_open:
            raise SerialException("Port is already open.")
        with translated(f"could not open port {self._port}: "):
            device = open_backend(self._port, self._config())
        try:
            with translated():
                self._set_lines(device)
                device.discard_input()
            self._make_waits(device)
        except BaseException:
            device.close()
            raise
        self._device = device
        self._in_a_hurry.clear()
        self.is_open = True
        _open_ports.add(self)

    def _make_waits(self, device: SerialBackend) -> None:
        self._read_wait = InterruptibleWait(device.fileno(), select.POLLIN)
        self._write_wait = InterruptibleWait(device.fileno(), select.POLLOUT)

    def _set_lines(self, device: SerialBackend) -> None:
        # Lines that the flow control drives are left to it; a device without any is fine.
        rts = None if self._rtscts else bool(self._rts_state)
        dtr = None if self._dsrdtr else bool(self._dtr_state)
        with contextlib.suppress(UnsupportedFeatureError):
            device.set_control_lines(rts, dtr)

    def close(self) -> None:
        """Close the port. A read or a write in another thread ends with what it has done.

        What the driver has not sent yet gets up to 30 s to leave, as the kernel would give it.
        """
        self._close()

    def close_at_once(self) -> None:
        """Close the port and discard what has not been sent."""
        self.cut_closing_short()
        self._close()

    def cut_closing_short(self) -> None:
        """Have :meth:`close`, at work in another thread or yet to come, discard what is unsent."""
        self._in_a_hurry.set()

    def _close(self) -> None:
        if not getattr(self, "is_open", False):
            return
        self.is_open = False
        self._read_wait.interrupt()
        self._write_wait.interrupt()
        if threading.get_ident() in (self._reader, self._writer):
            # A signal's handler, in the midst of this thread's own call: that finishes the work.
            self._close_put_off = True
        else:
            self._finish_closing()

    def _finish_close_put_off(self) -> None:
        if self._close_put_off and threading.get_ident() not in (self._reader, self._writer):
            self._finish_closing()

    def _finish_closing(self) -> None:
        with self._reading, self._writing:
            self._close_put_off = False
            device, self._device = self._device, None
            if device is None:
                return
            try:
                _until_sent(device, self._in_a_hurry)
            finally:
                self._read_wait.close()
                self._write_wait.close()
                with translated():
                    device.close()

    def _begin_anew_in_child(self) -> None:
        # What other threads held stayed in the parent, and so must what wakes its reads: its
        # descriptors are shared.
        self._reading = threading.RLock()
        self._writing = threading.RLock()
        self._in_a_hurry = threading.Event()
        self._reader = self._writer = 0
        device = self._device
        if device is None:
            return
        self._read_wait.close()
        self._write_wait.close()
        forget: Callable[[], None] | None = getattr(device, "forget_threads", None)
        if forget is not None:
            forget()
        self._make_waits(device)

    def __enter__(self) -> Self:
        if self._port is not None and not self.is_open:
            self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def port(self) -> str | None:
        """The name of the port. Setting it while open closes the old one and opens the new one."""
        return self._port

    @port.setter
    def port(self, port: str | None) -> None:
        if port is not None and not isinstance(port, str):
            raise ValueError(f'"port" must be None or a string, not {type(port)}')
        was_open = self.is_open
        if was_open:
            self.close()
        self._port = self.portstr = self.name = port
        if was_open:
            self.open()

    def _apply_settings(self) -> None:
        if self.is_open:
            with translated():
                self._opened().configure(self._config())

    # ---- reading -------------------------------------------------------------------------------

    def read(self, size: int = 1) -> bytes:
        """Return *size* bytes, or what came before a time-out or :meth:`cancel_read`."""
        with self._reading:
            outer, self._reader = self._reader, threading.get_ident()
            try:
                return self._read(size)
            finally:
                self._reader = outer
                if self.is_open:
                    self._read_wait.forget()
                self._finish_close_put_off()

    def _read(self, size: int) -> bytes:
        device = self._opened()
        data = b""
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while len(data) < size:
            try:
                piece = device.read(min(size - len(data), _READ_AT_ONCE))
            except BlockingIOError:
                pass
            except OSError as exc:
                if data:
                    break  # these bytes first; the next call meets the error again
                raise translation(exc) from exc
            else:
                if not piece and data:
                    break
                if not piece:
                    raise translation(disconnected_error(self._port))
                data += piece
                if len(data) >= size or self._timeout == 0:
                    break
            if not self._await_more(deadline, after_a_byte=bool(data)):
                break
        return data

    def _await_more(self, deadline: float | None, *, after_a_byte: bool) -> bool:
        pause = self._inter_byte_timeout
        if after_a_byte and pause:
            gap = time.monotonic() + pause
            deadline = gap if deadline is None else min(deadline, gap)
        ready = self._read_wait.wait(deadline)
        return bool(ready) and self.is_open

    def read_until(self, expected: bytes = LF, size: int | None = None) -> bytes:
        """Return the bytes up to and with *expected*, at most *size*, or until a time-out.

        The time-out is one for all of it.
        """
        line = bytearray()
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            byte = self.read(1)
            if not byte:
                break
            line += byte
            if line.endswith(expected) or (size is not None and len(line) >= size):
                break
            if deadline is not None and time.monotonic() >= deadline and self._timeout != 0:
                break
        return bytes(line)

    def iread_until(self, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        """Yield what :meth:`read_until` returns, until that is nothing."""
        while line := self.read_until(*args, **kwargs):
            yield line

    def read_all(self) -> bytes:
        """Return what is there."""
        return self.read(self.in_waiting)

    def readinto(self, b: Any) -> int:
        """Read into a buffer; as :meth:`read` of its length."""
        view = memoryview(b).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def cancel_read(self) -> None:
        """End a read that waits in another thread; it returns what it has."""
        if self.is_open:
            self._read_wait.interrupt()

    # ---- writing -------------------------------------------------------------------------------

    def write(self, data: Any) -> int:
        """Hand the bytes to the driver and return how many; SerialTimeoutException when late."""
        with self._writing:
            outer, self._writer = self._writer, threading.get_ident()
            try:
                return self._write(data)
            finally:
                self._writer = outer
                if self.is_open:
                    self._write_wait.forget()
                self._finish_close_put_off()

    def _write(self, data: Any) -> int:
        device = self._opened()
        unsent = memoryview(to_bytes(data))
        length = len(unsent)
        deadline = None
        if self._write_timeout is not None:
            deadline = time.monotonic() + self._write_timeout
        while unsent:
            try:
                unsent = unsent[device.write(unsent) :]
            except BlockingIOError:
                pass
            except OSError as exc:
                raise translation(exc, "write failed: ") from exc
            if not unsent or self._write_timeout == 0:
                break
            ready = self._write_wait.wait(deadline)
            if ready is None:
                break
            if not ready:
                raise SerialTimeoutException("Write timeout")
        return length - len(unsent)

    def flush(self) -> None:
        """Wait until all has been sent."""
        device = self._opened()
        with translated():
            while count := device.output_waiting():
                time.sleep(min(_LONGEST_NAP_S, count * 10 / max(self._baudrate, 1)))
            while (empty := device.transmitter_is_empty()) is False:
                time.sleep(min(_LONGEST_NAP_S, 10 / max(self._baudrate, 1)))
            if empty is None:
                pending = device.begin_drain()
                try:
                    done = select.poll()
                    done.register(pending, select.POLLIN)
                    done.poll()
                    pending.finish()
                finally:
                    pending.cancel()

    def cancel_write(self) -> None:
        """End a write that waits in another thread; it returns how many bytes it wrote."""
        if self.is_open:
            self._write_wait.interrupt()

    # ---- queues --------------------------------------------------------------------------------

    @property
    def in_waiting(self) -> int:
        """Bytes received and not yet read."""
        with translated():
            return self._opened().input_waiting()

    @property
    def out_waiting(self) -> int:
        """Bytes written and not yet sent."""
        with translated():
            return self._opened().output_waiting()

    def reset_input_buffer(self) -> None:
        """Discard what was received and not yet read."""
        with translated():
            self._opened().discard_input()

    def reset_output_buffer(self) -> None:
        """Discard what was written and not yet sent."""
        with translated():
            self._opened().discard_output()

    # ---- lines ---------------------------------------------------------------------------------

    @property
    def rts(self) -> bool:
        """Request To Send; set before opening, it is the state from then on."""
        return self._rts_state

    @rts.setter
    def rts(self, value: bool) -> None:
        if self.is_open:
            with translated():
                self._opened().set_control_lines(bool(value), None)
        self._rts_state = value

    @property
    def dtr(self) -> bool:
        """Data Terminal Ready; set before opening, it is the state from then on."""
        return self._dtr_state

    @dtr.setter
    def dtr(self, value: bool) -> None:
        if self.is_open:
            with translated():
                self._opened().set_control_lines(None, bool(value))
        self._dtr_state = value

    @property
    def break_condition(self) -> bool:
        """Whether the line is held in the break state."""
        return self._break_state

    @break_condition.setter
    def break_condition(self, value: bool) -> None:
        if self.is_open:
            with translated():
                self._opened().set_break(bool(value))
        self._break_state = value

    def send_break(self, duration: float = 0.25) -> None:
        """Hold the line in the break state for *duration* seconds."""
        self._opened()
        self.break_condition = True
        try:
            time.sleep(duration)
        finally:
            self.break_condition = False

    @property
    def cts(self) -> bool:
        """Clear To Send."""
        return self._modem_line("cts")

    @property
    def dsr(self) -> bool:
        """Data Set Ready."""
        return self._modem_line("dsr")

    @property
    def ri(self) -> bool:
        """Ring Indicator."""
        return self._modem_line("ri")

    @property
    def cd(self) -> bool:
        """Carrier Detect."""
        return self._modem_line("cd")

    def _modem_line(self, name: str) -> bool:
        with translated():
            state: bool = getattr(self._opened().modem_lines(), name)
        return state

    # ---- of this platform ----------------------------------------------------------------------

    def fileno(self) -> int:
        """The descriptor, for ``select``. Read through this object all the same."""
        return self._opened().fileno()

    @property
    def device(self) -> SerialBackend | None:
        """The device of this package beneath; None while closed. pyserial has no such thing."""
        return self._device

    @property
    def fd(self) -> int | None:
        """The descriptor; None while closed."""
        return self._device.fileno() if self._device is not None else None

    def set_low_latency_mode(self, low_latency_settings: bool) -> None:
        """Have the driver hand bytes over at once; ValueError where it cannot."""
        device = self._opened()
        try:
            device.configure(device.config.with_changes(low_latency=bool(low_latency_settings)))
        except OSError as exc:
            raise ValueError(
                f"Failed to update low latency to {low_latency_settings}: {exc}"
            ) from exc

    def set_input_flow_control(self, enable: bool = True) -> None:
        """Tell the other side, by XON or XOFF, to send or to stop."""
        self._flow(termios.TCION if enable else termios.TCIOFF)

    def set_output_flow_control(self, enable: bool = True) -> None:
        """Go on sending, or stop, as if XON or XOFF had come."""
        self._flow(termios.TCOON if enable else termios.TCOOFF)

    def _flow(self, action: int) -> None:
        with translated():
            ttyioctl.ioctl(self._opened().fileno(), termios.TCXONC, action)

    def nonblocking(self) -> None:
        """Do nothing; deprecated in pyserial."""
        warnings.warn("nonblocking() has no effect", DeprecationWarning, stacklevel=2)

    # ---- as a file -----------------------------------------------------------------------------

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}<id=0x{id(self):x}, open={self.is_open}>"
            f"(port={self.portstr!r}, baudrate={self.baudrate!r}, bytesize={self.bytesize!r}, "
            f"parity={self.parity!r}, stopbits={self.stopbits!r}, timeout={self.timeout!r}, "
            f"xonxoff={self.xonxoff!r}, rtscts={self.rtscts!r}, dsrdtr={self.dsrdtr!r})"
        )

    def _opened(self) -> SerialBackend:
        device = self._device
        if device is None or not self.is_open:
            raise PortNotOpenError
        return device

    # ---- names of pyserial 2 -------------------------------------------------------------------

    getSettingsDict = SerialSettings.get_settings
    applySettingsDict = SerialSettings.apply_settings
    writeTimeout = SerialSettings.write_timeout
    interCharTimeout = SerialSettings.inter_byte_timeout
    flushInput = reset_input_buffer
    flushOutput = reset_output_buffer
    sendBreak = send_break

    def inWaiting(self) -> int:
        return self.in_waiting

    def isOpen(self) -> bool:
        return self.is_open

    def setPort(self, port: str | None) -> None:
        self.port = port

    def setRTS(self, value: bool = True) -> None:
        self.rts = value

    def setDTR(self, value: bool = True) -> None:
        self.dtr = value

    def getCTS(self) -> bool:
        return self.cts

    def getDSR(self) -> bool:
        return self.dsr

    def getRI(self) -> bool:
        return self.ri

    def getCD(self) -> bool:
        return self.cd


def _until_sent(device: SerialBackend, in_a_hurry: threading.Event) -> None:
    deadline = time.monotonic() + CLOSE_LINGER_S
    with contextlib.suppress(SerialError):  # gone: nothing is left to wait for
        while (
            not in_a_hurry.is_set()
            and (count := device.output_waiting())
            and time.monotonic() < deadline
        ):
            in_a_hurry.wait(nap_for(count, device.config))


_open_ports: weakref.WeakSet[Serial] = weakref.WeakSet()


def _begin_anew_in_child() -> None:
    for port in list(_open_ports):
        port._begin_anew_in_child()


os.register_at_fork(after_in_child=_begin_anew_in_child)
