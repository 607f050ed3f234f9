"""The settings of pyserial's ``Serial`` and of RS-485, and their translation to this package's."""

from __future__ import annotations

import io
import math
from typing import Any

from penstock.serial._devices.url import is_url
from penstock.serial.compat._definitions import (
    EIGHTBITS,
    FIVEBITS,
    PARITY_EVEN,
    PARITY_MARK,
    PARITY_NONE,
    PARITY_ODD,
    PARITY_SPACE,
    SEVENBITS,
    SIXBITS,
    STOPBITS_ONE,
    STOPBITS_ONE_POINT_FIVE,
    STOPBITS_TWO,
)
from penstock.serial.config import (
    ByteSize,
    FlowControl,
    Parity,
    RS485Config,
    SerialConfig,
    StopBits,
)
from penstock.serial.exceptions import ConfigurationError


class RS485Settings:
    """Levels of RTS when sending and when idle, whether own bytes are echoed, delays in s."""

    def __init__(
        self,
        rts_level_for_tx: bool = True,
        rts_level_for_rx: bool = False,
        loopback: bool = False,
        delay_before_tx: float | None = None,
        delay_before_rx: float | None = None,
    ) -> None:
        self.rts_level_for_tx = rts_level_for_tx
        self.rts_level_for_rx = rts_level_for_rx
        self.loopback = loopback
        self.delay_before_tx = delay_before_tx
        self.delay_before_rx = delay_before_rx


def rs485_config(settings: RS485Settings | None) -> RS485Config | None:
    """Return pyserial's settings as this package's."""
    if settings is None:
        return None
    return RS485Config(
        rts_on_send=bool(settings.rts_level_for_tx),
        rts_after_send=bool(settings.rts_level_for_rx),
        rx_during_tx=bool(settings.loopback),
        delay_before_send=settings.delay_before_tx or 0.0,
        delay_after_send=settings.delay_before_rx or 0.0,
    )


_PARITIES = {
    PARITY_NONE: Parity.NONE,
    PARITY_EVEN: Parity.EVEN,
    PARITY_ODD: Parity.ODD,
    PARITY_MARK: Parity.MARK,
    PARITY_SPACE: Parity.SPACE,
}
_STOP_BITS = {
    STOPBITS_ONE: StopBits.ONE,
    STOPBITS_ONE_POINT_FIVE: StopBits.ONE_POINT_FIVE,
    STOPBITS_TWO: StopBits.TWO,
}


class SerialSettings(io.RawIOBase):
    """Properties that can be set before and after opening. A refused one keeps its value."""

    BAUDRATES = (
        *(50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400),
        *(57600, 115200, 230400, 460800, 500000, 576000, 921600, 1000000, 1152000, 1500000),
        *(2000000, 2500000, 3000000, 3500000, 4000000),
    )
    BYTESIZES = (FIVEBITS, SIXBITS, SEVENBITS, EIGHTBITS)
    PARITIES = tuple(_PARITIES)
    STOPBITS = tuple(_STOP_BITS)

    _SAVED_SETTINGS = (
        *("baudrate", "bytesize", "parity", "stopbits", "xonxoff", "dsrdtr", "rtscts"),
        *("timeout", "write_timeout", "inter_byte_timeout"),
    )

    _port: str | None
    _baudrate: int
    _bytesize: int
    _parity: str
    _stopbits: float
    _timeout: float | None
    _write_timeout: float | None
    _inter_byte_timeout: float | None
    _xonxoff: bool
    _rtscts: bool
    _dsrdtr: bool
    _exclusive: bool | None
    _rs485_mode: RS485Settings | None

    @property
    def baudrate(self) -> int:
        """Bits a second, any rate that the driver can make."""
        return self._baudrate

    @baudrate.setter
    def baudrate(self, baudrate: int) -> None:
        try:
            rate = int(baudrate)
        except TypeError:
            raise ValueError(f"Not a valid baudrate: {baudrate!r}") from None
        if rate < 0:
            raise ValueError(f"Not a valid baudrate: {baudrate!r}")
        self._change("_baudrate", rate)

    @property
    def bytesize(self) -> int:
        """Data bits, 5 to 8."""
        return self._bytesize

    @bytesize.setter
    def bytesize(self, bytesize: int) -> None:
        if bytesize not in self.BYTESIZES:
            raise ValueError(f"Not a valid byte size: {bytesize!r}")
        self._change("_bytesize", bytesize)

    @property
    def parity(self) -> str:
        """One of ``N``, ``E``, ``O``, ``M``, ``S``."""
        return self._parity

    @parity.setter
    def parity(self, parity: str) -> None:
        if parity not in self.PARITIES:
            raise ValueError(f"Not a valid parity: {parity!r}")
        self._change("_parity", parity)

    @property
    def stopbits(self) -> float:
        """1, 1.5 or 2. Linux has no 1.5: a tty gets 2, as with pyserial."""
        return self._stopbits

    @stopbits.setter
    def stopbits(self, stopbits: float) -> None:
        if stopbits not in self.STOPBITS:
            raise ValueError(f"Not a valid stop bit size: {stopbits!r}")
        self._change("_stopbits", stopbits)

    @property
    def timeout(self) -> float | None:
        """Seconds that a read waits for all requested bytes: None forever, 0 not at all."""
        return self._timeout

    @timeout.setter
    def timeout(self, timeout: float | None) -> None:
        self._timeout = _valid_time(timeout)

    @property
    def write_timeout(self) -> float | None:
        """Seconds that a write may take; with 0 it writes what fits and returns the count."""
        return self._write_timeout

    @write_timeout.setter
    def write_timeout(self, timeout: float | None) -> None:
        self._write_timeout = _valid_time(timeout)

    @property
    def inter_byte_timeout(self) -> float | None:
        """Seconds without a byte after which a read ends early; None: no limit."""
        return self._inter_byte_timeout

    @inter_byte_timeout.setter
    def inter_byte_timeout(self, ic_timeout: float | None) -> None:
        self._inter_byte_timeout = _valid_time(ic_timeout)

    @property
    def xonxoff(self) -> bool:
        """Flow control by XON and XOFF."""
        return self._xonxoff

    @xonxoff.setter
    def xonxoff(self, xonxoff: bool) -> None:
        self._change("_xonxoff", xonxoff)

    @property
    def rtscts(self) -> bool:
        """Flow control by RTS and CTS."""
        return self._rtscts

    @rtscts.setter
    def rtscts(self, rtscts: bool) -> None:
        self._change("_rtscts", rtscts)

    @property
    def dsrdtr(self) -> bool:
        """Whether DTR is left alone at opening; Linux has no flow control by DTR and DSR."""
        return self._dsrdtr

    @dsrdtr.setter
    def dsrdtr(self, dsrdtr: bool | None) -> None:
        self._change("_dsrdtr", self._rtscts if dsrdtr is None else dsrdtr)

    @property
    def exclusive(self) -> bool | None:
        """Whether other programs are refused while the port is open."""
        return self._exclusive

    @exclusive.setter
    def exclusive(self, exclusive: bool | None) -> None:
        self._change("_exclusive", exclusive)

    @property
    def rs485_mode(self) -> RS485Settings | None:
        """The kernel's RS-485 mode, an ``rs485.RS485Settings``; None switches it off."""
        return self._rs485_mode

    @rs485_mode.setter
    def rs485_mode(self, rs485_settings: RS485Settings | None) -> None:
        self._change("_rs485_mode", rs485_settings)

    def get_settings(self) -> dict[str, Any]:
        """Return the settings as a dictionary for :meth:`apply_settings`."""
        return {name: getattr(self, name) for name in self._SAVED_SETTINGS}

    def apply_settings(self, d: dict[str, Any]) -> None:
        """Set the settings in ``d`` and leave the others."""
        for name in self._SAVED_SETTINGS:
            if name in d and d[name] != getattr(self, name):
                setattr(self, name, d[name])

    def _change(self, name: str, value: Any) -> None:
        before = getattr(self, name, value)
        setattr(self, name, value)
        try:
            self._apply_settings()
        except BaseException:
            setattr(self, name, before)
            raise

    def _apply_settings(self) -> None:
        """Apply the settings, if the port is open."""
        raise NotImplementedError

    def _config(self) -> SerialConfig:
        remote = self._port is not None and is_url(self._port)
        stop_bits = _STOP_BITS[self._stopbits]
        if stop_bits is StopBits.ONE_POINT_FIVE and not remote:
            stop_bits = StopBits.TWO
        try:
            return SerialConfig(
                baudrate=self._baudrate,
                byte_size=ByteSize(str(int(self._bytesize))),
                parity=_PARITIES[self._parity],
                stop_bits=stop_bits,
                flow_control=FlowControl(xon_xoff=bool(self._xonxoff), rts_cts=bool(self._rtscts)),
                exclusive=bool(self._exclusive),
                rs485=rs485_config(self._rs485_mode),
            )
        except ConfigurationError as exc:
            raise ValueError(str(exc)) from exc


def _valid_time(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    try:
        valid = seconds >= 0 and not math.isnan(seconds)
    except TypeError:
        valid = False
    if not valid:
        raise ValueError(f"Not a valid timeout: {seconds!r}")
    return seconds
