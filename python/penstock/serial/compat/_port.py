"""``serial.Serial`` as pyserial 3.5 has it, on this package's devices, with pyserial's errors."""

from __future__ import annotations

import contextlib
import errno
import logging
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.serial._blocking import (
    FOREVER,
    BlockingDevice,
    BlockingWaiter,
    Half,
    Overdue,
    Wait,
    run,
)
from penstock.serial._devices.backend import SerialBackend
from penstock.serial._devices.open import open_backend
from penstock.serial._port.send import CLOSE_LINGER_S, wait_until_on_the_wire
from penstock.serial._tty import system_calls
from penstock.serial._tty.device import TtyDevice
from penstock.serial.compat._base import SerialBase
from penstock.serial.compat._definitions import (
    PortNotOpenError,
    SerialException,
    SerialTimeoutException,
    to_bytes,
)
from penstock.serial.exceptions import (
    ConfigurationError,
    UnsupportedConfigurationError,
    UnsupportedFeatureError,
    disconnected_error,
)


@contextmanager
def translated(phrase: Callable[[str], str] = str) -> Iterator[None]:
    """Raise errors as pyserial does: ValueError for a setting, else SerialException.

    ``phrase`` makes pyserial's sentence of this package's.
    """
    try:
        yield
    except SerialException:
        raise
    except (ConfigurationError, UnsupportedConfigurationError) as exc:
        raise ValueError(phrase(str(exc))) from exc
    except OSError as exc:
        raise translation(exc, phrase) from exc


def translation(exc: OSError, phrase: Callable[[str], str] = str) -> SerialException:
    """Return pyserial's exception for this package's."""
    return SerialException(exc.errno or errno.EIO, phrase(str(exc)))


_log = logging.getLogger("penstock.serial.compat")

_READ_AT_ONCE = 65_536
_ASSERTED_ON_A_SOCKET = frozenset({"cts", "dsr", "cd"})  # pyserial's constants
_BITS_A_BYTE = 10


class Serial(SerialBase):
    """A serial port with pyserial's attributes, methods, defaults and exceptions.

    Unlike pyserial's, it also opens URLs, and a setting that a device refuses keeps its value.
    One thread may read while another writes. Any thread may cancel either, or close the port.
    """

    # ---- opening and closing -------------------------------------------------------------------

    def _begin(self) -> None:
        self._use: BlockingDevice | None = None
        self._was_closed = False

    def open(self) -> None:
        """Open ``port`` with the present settings.

        Raises:
            SerialException: It cannot be opened, or is open already.
        """
        if self._port is None:
            raise SerialException("Port must be configured before it can be used.")
        if self.is_open:
            raise SerialException("Port is already open.")
        if self._use is not None and self._use.close_deferred:
            raise SerialException(
                f"{self._port} is still being closed, by a signal handler during a read or a "
                "write; open it when that call has returned"
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
            # Reentrant: a signal handler may read while its thread reads.
            use = BlockingDevice(device, threading.RLock, halves_share_wake_up=False)
        except BaseException:
            device.close()
            raise
        self._use = use
        self.is_open: bool = True
        self._was_closed = False

    def _set_lines(self, device: SerialBackend) -> None:
        # Lines that the flow control drives are left to it. A device without lines is accepted.
        rts = None if self._rtscts else bool(self._rts_state)
        dtr = None if self._dsrdtr else bool(self._dtr_state)
        with contextlib.suppress(UnsupportedFeatureError):
            device.set_control_lines(rts, dtr)

    def close(self) -> None:
        """Close the port. A read or a write in another thread ends with what it has done.

        What the driver has not sent yet gets up to 30 s to leave, as the kernel would allow.
        """
        self._close()

    def close_at_once(self) -> None:
        """Close the port and discard what has not been sent."""
        self.cut_closing_short()
        self._close()

    def cut_closing_short(self) -> None:
        """Let :meth:`close`, running in another thread or still to come, discard unsent output."""
        use = self._use
        if use is not None:
            use.abandon_output()

    @property
    def closed(self) -> bool:
        """Whether a ``loop://`` port is closed again; ``False`` for others, as in pyserial 3.5.

        :attr:`is_open` tells it of every port.
        """
        return getattr(self, "_was_closed", False) and str(self._port).startswith("loop://")

    def _close(self) -> None:
        self._was_closed = True
        use = getattr(self, "_use", None)  # absent where __init__ has failed
        if use is None or not self.is_open:
            return
        self.is_open = False
        with translated():
            use.close(time.monotonic() + CLOSE_LINGER_S)

    # ---- reading -------------------------------------------------------------------------------

    def read(self, size: int = 1) -> bytes:
        """Return ``size`` bytes, or what came before a timeout or :meth:`cancel_read`."""
        use = self._use
        if use is None:
            raise PortNotOpenError
        half = use.receiving
        with half.lock:
            outer, half.holder = half.holder, threading.get_ident()
            try:
                return self._read(size, half)
            finally:
                half.holder = outer
                self._leave(use, half)

    def _read(self, size: int, half: Half) -> bytes:
        device = self._opened()
        data = b""
        timeout = self._timeout
        deadline = FOREVER if timeout is None else time.monotonic() + timeout
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
                if len(data) >= size or timeout == 0:
                    break
            pause = self._inter_byte_timeout
            until = min(deadline, time.monotonic() + pause) if data and pause else deadline
            if not half.wait.until(until) or not self.is_open:
                break
        return data

    def cancel_read(self) -> None:
        """End a read that waits in another thread; it returns what it has."""
        use = self._use
        if use is not None and self.is_open:
            use.receiving.wake.set()

    def _leave(self, use: BlockingDevice, half: Half) -> None:
        # A cancellation that found nobody waiting must not end a later wait.
        if half.wake.is_set and self.is_open:
            half.wake.clear()
        if use.close_deferred:
            with translated():
                use.finish_closing()

    # ---- writing -------------------------------------------------------------------------------

    def write(self, data: Any) -> int:
        """Hand the bytes to the driver and return how many.

        Raises:
            SerialTimeoutException: ``write_timeout`` has expired.
        """
        use = self._use
        if use is None:
            raise PortNotOpenError
        half = use.sending
        with half.lock:
            outer, half.holder = half.holder, threading.get_ident()
            try:
                return self._write(data, half)
            finally:
                half.holder = outer
                self._leave(use, half)

    def _write(self, data: Any, half: Half) -> int:
        device = self._opened()
        unsent = memoryview(to_bytes(data))
        length = len(unsent)
        timeout = self._write_timeout
        deadline = FOREVER if timeout is None else time.monotonic() + timeout
        try:
            if timeout and self._is_too_slow(device, length):
                if Wait(half.wake).until(deadline) is None:
                    return 0
                raise Overdue
            if unsent:
                try:  # noqa: SIM105 - suppress() costs more, and every write comes here
                    unsent = unsent[device.write(unsent) :]
                except BlockingIOError:
                    pass
            if unsent and timeout != 0:
                unsent = half.write(device.write, unsent, deadline)
        except Overdue:
            raise SerialTimeoutException("Write timeout") from None
        except OSError as exc:
            raise translation(exc, "write failed: {}".format) from exc
        return length - len(unsent)

    def _is_too_slow(self, device: SerialBackend, length: int) -> bool:
        # pyserial's loop takes no time. But a write that a line of this rate could not finish
        # within its timeout fails, or is cancelled, when that has expired.
        if not self._write_timeout or not _is(device, "loop"):
            return False
        return length * _BITS_A_BYTE > self._write_timeout * self._baudrate

    def flush(self) -> None:
        """Wait until everything has been sent."""
        device = self._opened()
        with translated():
            run(wait_until_on_the_wire(device.output_waiting, device, BlockingWaiter()))

    def cancel_write(self) -> None:
        """End a write that waits in another thread; it returns how many bytes it wrote."""
        use = self._use
        if use is not None and self.is_open:
            use.sending.wake.set()

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
            _log.info("%s: a socket has no %s; reported as %s", self._port, name.upper(), state)
            return state
        with translated():
            state = bool(getattr(device.modem_lines(), name))
        return state

    # ---- of this platform ----------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the descriptor, for ``select``. Read through this object, not from it."""
        return self._opened().fileno()

    @property
    def device(self) -> SerialBackend | None:
        """The device of this package that the port uses; None while closed. Not in pyserial."""
        use = self._use
        return use.device if use is not None and not use.is_released else None

    @property
    def fd(self) -> int | None:
        """The descriptor; None while closed."""
        device = self.device
        return device.fileno() if device is not None else None

    def set_low_latency_mode(self, low_latency_settings: bool) -> None:
        """Let the driver pass bytes on at once; raises ValueError if it cannot."""
        device = self._opened()
        try:
            device.configure(device.config.with_changes(low_latency=bool(low_latency_settings)))
        except OSError as exc:
            raise ValueError(
                f"Failed to update low latency to {low_latency_settings}: {exc}"
            ) from exc

    def set_input_flow_control(self, enable: bool = True) -> None:
        """Let the other side send or stop, by sending XON or XOFF."""
        self._flow(termios.TCION if enable else termios.TCIOFF)

    def set_output_flow_control(self, enable: bool = True) -> None:
        """Continue or stop sending, as if XON or XOFF had been received."""
        self._flow(termios.TCOON if enable else termios.TCOOFF)

    def _flow(self, action: int) -> None:
        with translated():
            system_calls.ioctl(self._opened().fileno(), termios.TCXONC, action)

    def _opened(self) -> SerialBackend:
        use = self._use
        if use is None or not self.is_open:
            raise PortNotOpenError
        return use.device


def _could_not_open(port: str) -> Callable[[str], str]:
    # pyserial's beginning, which scripts search for; the port is named once.
    def sentence(error: str) -> str:
        rest = error.removeprefix(port).lstrip(": ")
        if port in rest:
            return f"could not open port: {error}"
        return f"could not open port {port}: {rest}"

    return sentence


def _has_bytes_alone(device: SerialBackend) -> bool:
    # As in pyserial, whose scripts set DTR and RTS on every kind of port.
    return _is(device, "socket")


def _is(device: SerialBackend, kind: str) -> bool:
    # A tty is asked for its capabilities only where they are wanted for themselves.
    return not isinstance(device, TtyDevice) and device.capabilities.backend == kind
