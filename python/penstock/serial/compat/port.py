"""``serial.Serial`` as pyserial 3.5 has it, on this package's devices."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import termios
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from penstock.serial import ttyioctl
from penstock.serial.backend import SerialBackend
from penstock.serial.compat.base import SerialBase
from penstock.serial.compat.definitions import (
    PortNotOpenError,
    SerialException,
    SerialTimeoutException,
    to_bytes,
)
from penstock.serial.compat.interruptible import InterruptibleWait
from penstock.serial.compat.translation import translated, translation
from penstock.serial.drain import CLOSE_LINGER_S, nap_for
from penstock.serial.exceptions import (
    ConfigurationError,
    SerialError,
    UnsupportedFeatureError,
    disconnected_error,
)
from penstock.serial.urls import open_backend

__all__ = ["Serial"]

_log = logging.getLogger(__name__)

_LONGEST_NAP_S = 0.01
_READ_AT_ONCE = 65_536
_ASSERTED_ON_A_SOCKET = frozenset({"cts", "dsr", "cd"})  # pyserial's constants
_BITS_A_BYTE = 10


class Serial(SerialBase):
    """A serial port with pyserial's attributes, methods, defaults and exceptions.

    Unlike pyserial's, it opens URLs too, and a setting that a device refuses keeps its value.
    One thread may read while another writes; any may cancel either, or close the port.
    """

    # ---- opening and closing -------------------------------------------------------------------

    def _begin(self) -> None:
        self._device: SerialBackend | None = None
        self._reading = threading.RLock()
        self._writing = threading.RLock()
        self._reader = self._writer = 0  # the threads within read and write
        self._close_put_off = False
        self._in_a_hurry = threading.Event()

    def open(self) -> None:
        """Open ``port`` with the present settings; SerialException where that is not possible."""
        if self._port is None:
            raise SerialException("Port must be configured before it can be used.")
        if self.is_open:
            raise SerialException("Port is already open.")
        if self._close_put_off:
            raise SerialException(
                f"{self._port} is still being closed, by a signal's handler in the midst of a "
                "read or a write; open it when that call has returned"
            )
        config = self._config()
        with translated(_could_not_open(self._port)):
            try:
                device = open_backend(self._port, config)
            except ConfigurationError as exc:  # of the name, since the settings are checked
                raise translation(exc, _could_not_open(self._port)) from exc
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
        device.forget_threads()
        self._make_waits(device)

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
        if deadline is not None and self._is_too_slow(device, length):
            if self._write_wait.sleep(deadline):
                raise SerialTimeoutException("Write timeout")
            return 0
        while unsent:
            try:
                unsent = unsent[device.write(unsent) :]
            except BlockingIOError:
                pass
            except OSError as exc:
                raise translation(exc, "write failed: {}".format) from exc
            if not unsent or self._write_timeout == 0:
                break
            ready = self._write_wait.wait(deadline)
            if ready is None:
                break
            if not ready:
                raise SerialTimeoutException("Write timeout")
        return length - len(unsent)

    def _is_too_slow(self, device: SerialBackend, length: int) -> bool:
        # pyserial's loop takes no time, but a write that a line of this rate could not finish
        # within its time-out fails, or is cancelled, after it.
        if device.capabilities.backend != "loop" or not self._write_timeout:
            return False
        return length * _BITS_A_BYTE > self._write_timeout * self._baudrate

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

    # ---- settings and lines --------------------------------------------------------------------

    def _reconfigure_port(self, force_update: bool = False) -> None:
        with translated():
            self._opened().configure(self._config())

    def _update_rts_state(self) -> None:
        self._set_line("RTS", self._rts_state, None)

    def _update_dtr_state(self) -> None:
        self._set_line("DTR", None, self._dtr_state)

    def _set_line(self, name: str, rts: bool | None, dtr: bool | None) -> None:
        device = self._opened()
        if _has_bytes_alone(device):
            _log.info("%s: a socket has no %s; ignored", self._port, name)
            return
        with translated():
            device.set_control_lines(
                None if rts is None else bool(rts), None if dtr is None else bool(dtr)
            )

    def _update_break_state(self) -> None:
        device = self._opened()
        if _has_bytes_alone(device):
            _log.info("%s: a socket has no break; ignored", self._port)
            return
        with translated():
            device.set_break(bool(self._break_state))

    def _modem_line(self, name: str) -> bool:
        device = self._opened()
        if _has_bytes_alone(device):
            state = name in _ASSERTED_ON_A_SOCKET
            _log.info("%s: a socket has no %s; told as %s", self._port, name.upper(), state)
            return state
        with translated():
            state = bool(getattr(device.modem_lines(), name))
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

    def _opened(self) -> SerialBackend:
        device = self._device
        if device is None or not self.is_open:
            raise PortNotOpenError
        return device


def _could_not_open(port: str) -> Callable[[str], str]:
    # pyserial's beginning, which scripts look for, with the name told once.
    def sentence(error: str) -> str:
        rest = error.removeprefix(port).lstrip(": ")
        if port in rest:
            return f"could not open port: {error}"
        return f"could not open port {port}: {rest}"

    return sentence


def _has_bytes_alone(device: SerialBackend) -> bool:
    # As pyserial has it: its scripts set DTR and RTS on whatever they are given.
    return device.capabilities.backend == "socket"


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
