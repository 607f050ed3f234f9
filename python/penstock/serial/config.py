"""The settings of a serial port: immutable, type-checked values without any I/O."""

from __future__ import annotations

import errno
import warnings
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from math import isfinite
from typing import Any, Self

from penstock.serial.exceptions import ConfigurationError, UnsupportedFeatureError

__all__ = [
    "ByteSize",
    "FlowControl",
    "Parity",
    "RS485Config",
    "SerialConfig",
    "StopBits",
    "UnsupportedPolicy",
]

_POLICY_REMEDY = "unsupported_policy to WARN or IGNORE"
_MIN_CHUNK = 64
_MAX_CHUNK = 1 << 24
_MAX_BAUDRATE = (1 << 32) - 1  # struct termios2 keeps a rate in an unsigned 32-bit word
# A receiver samples the last bit of a frame at half of its width: both sides together may be off
# by about 5 %. Half of that is one side's share.
_RATE_TOLERANCE = 0.025
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
    """What to do if the driver has no low-latency mode or no RS-485 support.

    Only these two are optional. Anything that decides how bytes look on the wire
    (rate, parity, stop bits, flow control) always raises.
    """

    RAISE = "raise"
    WARN = "warn"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControl:
    """What may stop the sender: XON/XOFF characters, RTS/CTS lines, DTR/DSR lines.

    Linux has no DTR/DSR flow control; a port refuses it.
    """

    xon_xoff: bool = False
    rts_cts: bool = False
    dtr_dsr: bool = False

    def __post_init__(self) -> None:
        _require_bool("xon_xoff", self.xon_xoff)
        _require_bool("rts_cts", self.rts_cts)
        _require_bool("dtr_dsr", self.dtr_dsr)

    @classmethod
    def none(cls) -> FlowControl:
        """No flow control at all."""
        return cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class RS485Config:
    """Half-duplex RS-485: how RTS switches the transceiver between sending and receiving.

    The kernel's driver switches it, exact to the bit (struct serial_rs485). With ``software`` the
    port switches it around each ``send``, which then returns when the last bit is on the wire. Use
    that for drivers without an RS-485 mode, on buses that tolerate a few milliseconds of silence.

    Attributes:
        enabled: False turns off the driver's mode.
        rts_on_send: RTS while sending.
        rts_after_send: RTS otherwise.
        delay_before_send: Seconds from RTS to the first bit, with a resolution of 1 ms.
        delay_after_send: Seconds from the last bit to RTS, with a resolution of 1 ms.
        rx_during_tx: Whether the port receives what it sends. With ``software``, the adapter alone
            decides that.
        software: Whether the port switches the transceiver instead of the driver.
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
    """Every setting of a serial port. Immutable, hashable, checked when created.

    Attributes:
        baudrate: Bits per second, any positive integer. Rates without a standard constant are
            passed to the driver, which refuses what it cannot make.
        byte_size: Data bits of a character.
        parity: Parity bit of a character.
        stop_bits: Stop bits of a character.
        flow_control: What may stop the sender.
        exclusive: Whether other programs get "busy" until the port is closed.
        hangup_on_close: Whether DTR and RTS are released when the last user closes the port.
        low_latency: Whether the driver passes bytes on at once. FTDI adapters otherwise collect
            them for up to 16 ms.
        read_chunk_size: The largest result of ``receive_available``, 64 bytes to 16 MiB.
        rs485: The RS-485 mode; None leaves the driver's mode as it is.
        unsupported_policy: See :class:`UnsupportedPolicy`.
        mark_errors: Whether the driver marks characters that arrive damaged; see
            :meth:`SerialPort.receive_marked`. Bytes received before a change keep their form.
        initial_rts: RTS from opening on. None leaves RTS as open(2) has set it: most drivers assert
            it. ``configure`` does not change it.
        initial_dtr: DTR, as ``initial_rts``.

    Raises:
        ConfigurationError: A setting has the wrong type or value.
    """

    baudrate: int = 115_200
    byte_size: ByteSize = ByteSize.EIGHT
    parity: Parity = Parity.NONE
    stop_bits: StopBits = StopBits.ONE
    flow_control: FlowControl = field(default_factory=lambda: _NO_FLOW_CONTROL)
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
        _require_bool("exclusive", self.exclusive)
        _require_bool("hangup_on_close", self.hangup_on_close)
        _require_bool("low_latency", self.low_latency)
        _require_bool("mark_errors", self.mark_errors)
        if self.initial_rts is not None:
            _require_bool("initial_rts", self.initial_rts)
        if self.initial_dtr is not None:
            _require_bool("initial_dtr", self.initial_dtr)
        _require_int("read_chunk_size", self.read_chunk_size, _MIN_CHUNK, _MAX_CHUNK)
        if self.rs485 is not None and not isinstance(self.rs485, RS485Config):
            raise _wrong("rs485", self.rs485, "an RS485Config or None")
        _require_member("unsupported_policy", self.unsupported_policy, UnsupportedPolicy)

    def with_changes(self, **changes: Any) -> Self:
        """Return a copy with ``changes``, checked like a new one."""
        return replace(self, **changes)


def checked_config(path: str, config: object) -> SerialConfig:
    """Return ``config``; raises :class:`ConfigurationError` for anything else."""
    if not isinstance(config, SerialConfig):
        raise ConfigurationError(
            errno.EINVAL, f"config must be a SerialConfig, not {config!r}", path
        )
    return config


def apply_unsupported_policy(
    policy: UnsupportedPolicy,
    path: str,
    missing: str,
    *,
    error: UnsupportedFeatureError | None = None,
) -> None:
    """Raise, warn or do nothing about an optional setting that a device lacks.

    Args:
        policy: What to do.
        path: The port.
        missing: What is missing where, such as "its driver has no RS-485 mode".
        error: What to raise; made from ``missing`` if None.

    Raises:
        UnsupportedFeatureError: The policy is to raise.
    """
    if policy is UnsupportedPolicy.RAISE:
        if error is None:
            sentence = f"{path}: {missing}; leave it out, or set {_POLICY_REMEDY}"
            error = UnsupportedFeatureError(errno.EOPNOTSUPP, sentence, path)
        raise error
    if policy is UnsupportedPolicy.WARN:
        warnings.warn(f"{path}: {missing}; continuing without it", RuntimeWarning, stacklevel=3)


def is_rate_met(wanted: int, actual: int) -> bool:
    """Return whether the rate ``actual`` is within the tolerance of ``wanted``."""
    return abs(actual - wanted) <= _RATE_TOLERANCE * wanted


def check_line_states(path: str, **states: object) -> None:
    """Raise :class:`ConfigurationError` unless every one is True, False or None."""
    for name, value in states.items():
        if value is not None and not isinstance(value, bool):
            raise ConfigurationError(
                errno.EINVAL, f"{name} must be True, False or None, not {value!r}", path
            )


def check_break(duration: float) -> None:
    """Raise ValueError unless ``duration`` is a number of seconds that can pass."""
    if not duration >= 0:
        raise ValueError(f"duration must be 0 or more seconds, not {duration}")


def _wrong(name: str, value: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(errno.EINVAL, f"{name} must be {wanted}, not {value!r}")


def _require_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise _wrong(name, value, "True or False")


def _require_int(name: str, value: object, low: int, high: int) -> None:
    # bool is a subclass of int, but baudrate=True is a mistake.
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _wrong(name, value, f"an integer from {low} to {high}")


def _require_member(name: str, value: object, kind: type[Enum]) -> None:
    # A StrEnum member equals its text, so "even" would pass an equality test and "E" would silently
    # mean no parity. Only members are accepted.
    if not isinstance(value, kind):
        choices = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise _wrong(name, value, f"one of {choices}")


_NO_FLOW_CONTROL: FlowControl = FlowControl()  # immutable, so that one is enough
