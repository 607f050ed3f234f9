"""What a serial port is asked to be: immutable, type-checked values without any I/O."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field, fields, replace
from enum import Enum, StrEnum
from math import isfinite
from typing import Any, Self

from penstock.serial.exceptions import ConfigurationError

__all__ = [
    "ByteSize",
    "FlowControl",
    "Parity",
    "RS485Config",
    "SerialConfig",
    "StopBits",
    "UnsupportedPolicy",
]

_MIN_CHUNK = 64
_MAX_CHUNK = 1 << 24
_MAX_BAUDRATE = (1 << 32) - 1  # struct termios2 keeps a rate in an unsigned 32-bit word
_MAX_DELAY_S = ((1 << 32) - 1) / 1000  # struct serial_rs485 keeps a delay in ms, in 32 bits


class ByteSize(StrEnum):
    """Data bits of a character."""

    FIVE = "5"
    SIX = "6"
    SEVEN = "7"
    EIGHT = "8"


class Parity(StrEnum):
    """Parity bit of a character; mark is always 1, space always 0."""

    NONE = "none"
    ODD = "odd"
    EVEN = "even"
    MARK = "mark"
    SPACE = "space"


class StopBits(StrEnum):
    """Stop bits of a character. No Linux driver offers 1.5 through termios."""

    ONE = "1"
    ONE_POINT_FIVE = "1.5"
    TWO = "2"


class UnsupportedPolicy(StrEnum):
    """What to do where the driver has no low-latency mode or no RS-485 support.

    Only these two are optional comforts. Anything that decides how bytes look on the wire
    (rate, parity, stop bits, flow control) is never dropped silently: it always raises.
    """

    RAISE = "raise"
    WARN = "warn"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControl:
    """Who may stop the sender: XON/XOFF characters, RTS/CTS lines, DTR/DSR lines.

    Linux offers no DTR/DSR flow control; a port refuses it.
    """

    xon_xoff: bool = False
    rts_cts: bool = False
    dtr_dsr: bool = False

    def __post_init__(self) -> None:
        for item in fields(self):
            _require_bool(item.name, getattr(self, item.name))

    @classmethod
    def none(cls) -> FlowControl:
        """No flow control at all."""
        return cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class RS485Config:
    """Half-duplex RS-485. Delays are in seconds, kept to 1 ms.

    The kernel's driver switches the transmitter by RTS, to the bit. With ``software`` the port does
    so around each ``send``, which then returns once the last bit is on the wire: for drivers that
    cannot, and for buses that bear a few milliseconds of silence. The receiver is not switched
    then; ``rx_during_tx`` is as the adapter is wired.
    """

    enabled: bool = True
    rts_on_send: bool = True
    rts_after_send: bool = False
    delay_before_send: float = 0.0
    delay_after_send: float = 0.0
    rx_during_tx: bool = False
    software: bool = False

    def __post_init__(self) -> None:
        for name in ("enabled", "rts_on_send", "rts_after_send", "rx_during_tx", "software"):
            _require_bool(name, getattr(self, name))
        for name in ("delay_before_send", "delay_after_send"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise _wrong(name, value, "a number of seconds, such as 0.001")
            if not isfinite(value) or not 0 <= value <= _MAX_DELAY_S:
                raise _wrong(name, value, "seconds from 0 upwards")


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialConfig:
    """Every setting of a serial port. Immutable, hashable, checked when built.

    ``baudrate``: bits a second, any positive integer; rates without a standard constant are
    asked from the driver as they are, which refuses what it cannot make.
    ``exclusive``: hold the port alone (default). Other programs get "busy" until it is closed.
    ``hangup_on_close``: drop DTR and RTS when the last user closes the port.
    ``low_latency``: ask the driver to hand over bytes at once (FTDI adapters otherwise collect
    them for up to 16 ms).
    ``read_chunk_size``: most bytes of one ``receive_available``, 64 bytes to 16 MiB.
    ``rs485``: the kernel's RS-485 mode, or None to leave the driver as it is.
    ``unsupported_policy``: see :class:`UnsupportedPolicy`.
    ``mark_errors``: have the driver mark characters that arrive damaged; see
    :meth:`SerialPort.receive_marked`. Bytes it took in before a change keep their old form.
    ``initial_rts``, ``initial_dtr``: the lines from the moment of opening on; None leaves what
    opening did, which on most drivers is to raise both. ``configure`` does not move them.

    Raises :class:`~penstock.serial.ConfigurationError` for a wrong type or value.
    """

    baudrate: int = 115_200
    byte_size: ByteSize = ByteSize.EIGHT
    parity: Parity = Parity.NONE
    stop_bits: StopBits = StopBits.ONE
    flow_control: FlowControl = field(default_factory=FlowControl)
    exclusive: bool = True
    hangup_on_close: bool = True
    low_latency: bool = False
    read_chunk_size: int = 65_536
    rs485: RS485Config | None = None
    unsupported_policy: UnsupportedPolicy = UnsupportedPolicy.RAISE
    mark_errors: bool = False
    initial_rts: bool | None = None
    initial_dtr: bool | None = None

    def __post_init__(self) -> None:
        _require_int("baudrate", self.baudrate, 1, _MAX_BAUDRATE)
        _require_member("byte_size", self.byte_size, ByteSize)
        _require_member("parity", self.parity, Parity)
        _require_member("stop_bits", self.stop_bits, StopBits)
        if not isinstance(self.flow_control, FlowControl):
            raise _wrong(
                "flow_control",
                self.flow_control,
                "a FlowControl, such as FlowControl(rts_cts=True)",
            )
        for name in ("exclusive", "hangup_on_close", "low_latency", "mark_errors"):
            _require_bool(name, getattr(self, name))
        for name in ("initial_rts", "initial_dtr"):
            if getattr(self, name) is not None:
                _require_bool(name, getattr(self, name))
        _require_int("read_chunk_size", self.read_chunk_size, _MIN_CHUNK, _MAX_CHUNK)
        if self.rs485 is not None and not isinstance(self.rs485, RS485Config):
            raise _wrong("rs485", self.rs485, "an RS485Config or None")
        _require_member("unsupported_policy", self.unsupported_policy, UnsupportedPolicy)

    def with_changes(self, **changes: Any) -> Self:
        """Return a copy with *changes*, checked like a new one."""
        return replace(self, **changes)


def checked_config(path: str, config: object) -> SerialConfig:
    """Return *config*; raises :class:`ConfigurationError` if it is no :class:`SerialConfig`."""
    if not isinstance(config, SerialConfig):
        raise ConfigurationError(
            errno.EINVAL, f"config must be a SerialConfig, not {config!r}", path
        )
    return config


def check_line_states(path: str, **states: object) -> None:
    """Raise :class:`ConfigurationError` unless every one is True, False or None."""
    for name, value in states.items():
        if value is not None and not isinstance(value, bool):
            raise ConfigurationError(
                errno.EINVAL, f"{name} must be True, False or None, not {value!r}", path
            )


def check_break(duration: float) -> None:
    """Raise ValueError unless *duration* is a number of seconds that can pass."""
    if not duration >= 0:
        raise ValueError(f"duration must be 0 or more seconds, not {duration}")


def _wrong(name: str, value: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(errno.EINVAL, f"{name} must be {wanted}, not {value!r}")


def _require_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise _wrong(name, value, "True or False")


def _require_int(name: str, value: object, low: int, high: int) -> None:
    # bool is an int for isinstance, and baudrate=True a mistake.
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _wrong(name, value, f"an integer from {low} to {high}")


def _require_member(name: str, value: object, kind: type[Enum]) -> None:
    # A StrEnum member equals its text, so "even" would pass an equality test and then miss every
    # table; "E" would silently mean no parity. Only members are taken.
    if not isinstance(value, kind):
        choices = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise _wrong(name, value, f"one of {choices}")
