"""The base of pyserial's ports: everything that does not depend on the device."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from penstock.serial.compat._definitions import (
    EIGHTBITS,
    LF,
    PARITY_NONE,
    STOPBITS_ONE,
    PortNotOpenError,
)
from penstock.serial.compat._settings import RS485Settings, SerialSettings


class SerialBase(SerialSettings):
    """A port without a device. :class:`Serial` has one; a URL handler may define its own.

    A subclass has ``open``, ``close``, ``read``, ``write`` and ``in_waiting``, keeps ``is_open``,
    and may have the four methods that apply a change: ``_reconfigure_port``,
    ``_update_rts_state``, ``_update_dtr_state`` and ``_update_break_state``.
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
        """Store the settings, and open ``port`` unless it is None."""
        self._begin()
        self._port: str | None = None
        self._rs485_mode: RS485Settings | None = None
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

    def _begin(self) -> None:
        """Create what a subclass needs before its first setting."""

    def open(self) -> None:
        """Open ``port`` with the present settings."""
        raise NotImplementedError(f"{type(self).__name__} has no open()")

    def _apply_settings(self) -> None:
        if self.is_open:
            self._reconfigure_port()

    def _reconfigure_port(self, force_update: bool = False) -> None:
        """Apply the settings; called while the port is open."""

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

    def __enter__(self) -> Self:
        if self._port is not None and not self.is_open:
            self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- reading -------------------------------------------------------------------------------

    @property
    def in_waiting(self) -> int:
        """Bytes received and not yet read."""
        raise NotImplementedError(f"{type(self).__name__} has no in_waiting")

    def reset_input_buffer(self) -> None:
        """Discard what was received and not yet read."""

    def reset_output_buffer(self) -> None:
        """Discard what was written and not yet sent."""

    def read_until(self, expected: bytes = LF, size: int | None = None) -> bytes:
        """Return the bytes up to and including ``expected``, at most ``size``, or until a timeout.

        The timeout applies to the whole call.
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
        """Yield the results of :meth:`read_until` until one is empty."""
        while line := self.read_until(*args, **kwargs):
            yield line

    def read_all(self) -> bytes:
        """Return the bytes that have arrived."""
        return self.read(self.in_waiting)

    def readinto(self, b: Any) -> int:
        """Read into a buffer; as :meth:`read` of its length."""
        view = memoryview(b).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    # ---- lines ---------------------------------------------------------------------------------

    @property
    def rts(self) -> bool:
        """Request To Send. Set before opening, it takes effect then."""
        return self._rts_state

    @rts.setter
    def rts(self, value: bool) -> None:
        self._switch("_rts_state", value, self._update_rts_state)

    @property
    def dtr(self) -> bool:
        """Data Terminal Ready. Set before opening, it takes effect then."""
        return self._dtr_state

    @dtr.setter
    def dtr(self, value: bool) -> None:
        self._switch("_dtr_state", value, self._update_dtr_state)

    @property
    def break_condition(self) -> bool:
        """Whether the line is held in the break state."""
        return self._break_state

    @break_condition.setter
    def break_condition(self, value: bool) -> None:
        self._switch("_break_state", value, self._update_break_state)

    def _switch(self, name: str, value: bool, update: Callable[[], None]) -> None:
        before = getattr(self, name)
        setattr(self, name, value)
        try:
            if self.is_open:
                update()
        except BaseException:
            setattr(self, name, before)
            raise

    def _update_rts_state(self) -> None:
        """Apply RTS; called while the port is open."""

    def _update_dtr_state(self) -> None:
        """Apply DTR; called while the port is open."""

    def _update_break_state(self) -> None:
        """Begin or end a break; called while the port is open."""

    def send_break(self, duration: float = 0.25) -> None:
        """Hold the line in the break state for ``duration`` seconds."""
        if not self.is_open:
            raise PortNotOpenError
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
        raise NotImplementedError(f"{type(self).__name__} has no {name}")

    def nonblocking(self) -> None:
        """Do nothing; deprecated in pyserial."""
        warnings.warn("nonblocking() has no effect", DeprecationWarning, stacklevel=2)

    # ---- as a file -----------------------------------------------------------------------------

    def readable(self) -> bool:
        """True: as ``io.RawIOBase`` asks."""
        return True

    def writable(self) -> bool:
        """True: as ``io.RawIOBase`` asks."""
        return True

    def seekable(self) -> bool:
        """False: a serial line has no positions."""
        return False

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}<id=0x{id(self):x}, open={self.is_open}>"
            f"(port={self.portstr!r}, baudrate={self.baudrate!r}, bytesize={self.bytesize!r}, "
            f"parity={self.parity!r}, stopbits={self.stopbits!r}, timeout={self.timeout!r}, "
            f"xonxoff={self.xonxoff!r}, rtscts={self.rtscts!r}, dsrdtr={self.dsrdtr!r})"
        )

    # ---- names of pyserial 2 -------------------------------------------------------------------

    getSettingsDict: Final = SerialSettings.get_settings
    applySettingsDict: Final = SerialSettings.apply_settings

    @property
    def writeTimeout(self) -> float | None:
        """Pyserial 2's name of :attr:`write_timeout`."""
        return self.write_timeout

    @writeTimeout.setter
    def writeTimeout(self, timeout: float | None) -> None:
        self.write_timeout = timeout

    @property
    def interCharTimeout(self) -> float | None:
        """Pyserial 2's name of :attr:`inter_byte_timeout`."""
        return self.inter_byte_timeout

    @interCharTimeout.setter
    def interCharTimeout(self, timeout: float | None) -> None:
        self.inter_byte_timeout = timeout

    flushInput = reset_input_buffer
    flushOutput = reset_output_buffer
    sendBreak = send_break

    def inWaiting(self) -> int:
        """Pyserial 2's name of :attr:`in_waiting`."""
        return self.in_waiting

    def isOpen(self) -> bool:
        """Pyserial 2's name of :attr:`is_open`."""
        return self.is_open

    def setPort(self, port: str | None) -> None:
        """Set :attr:`port`, as in pyserial 2."""
        self.port = port

    def setRTS(self, value: bool = True) -> None:
        """Set :attr:`rts`, as in pyserial 2."""
        self.rts = value

    def setDTR(self, value: bool = True) -> None:
        """Set :attr:`dtr`, as in pyserial 2."""
        self.dtr = value

    def getCTS(self) -> bool:
        """Pyserial 2's name of :attr:`cts`."""
        return self.cts

    def getDSR(self) -> bool:
        """Pyserial 2's name of :attr:`dsr`."""
        return self.dsr

    def getRI(self) -> bool:
        """Pyserial 2's name of :attr:`ri`."""
        return self.ri

    def getCD(self) -> bool:
        """Pyserial 2's name of :attr:`cd`."""
        return self.cd
