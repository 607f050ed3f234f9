"""Immutable values that describe a port: lines, capabilities, counters and where it is plugged in.

Nothing here does I/O.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum

from anyio import TypedAttributeSet, typed_attribute

from penstock.serial.config import SerialConfig

if sys.version_info >= (3, 12):
    from collections.abc import Buffer as BytesLike
else:
    from typing_extensions import Buffer as BytesLike  # a dependency of anyio

__all__ = [
    "BytesLike",
    "Capability",
    "CommEvent",
    "ControlLines",
    "ErrorCounters",
    "LineActivity",
    "ModemLines",
    "PortInfo",
    "SerialCapabilities",
    "SerialStreamAttribute",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModemLines:
    """The lines that the other side drives. True means asserted."""

    cts: bool
    dsr: bool
    ri: bool
    cd: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLines:
    """The lines that this side drives. True means asserted."""

    rts: bool
    dtr: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommEvent:
    """The lines that changed during a wait, and the receive errors counted meanwhile.

    Attributes:
        cts_changed: CTS changed.
        dsr_changed: DSR changed.
        rlsd_changed: CD changed.
        ring: RI changed.
        error: The driver counted a framing error, a parity error or an overrun. False if the
            driver keeps no counts.
        break_received: The driver counted a break. False if the driver keeps no counts.
    """

    cts_changed: bool = False
    dsr_changed: bool = False
    rlsd_changed: bool = False
    ring: bool = False
    error: bool = False
    break_received: bool = False


@dataclass(frozen=True, slots=True)
class LineActivity:
    """A reading of the modem lines together with the driver's counts.

    Attributes:
        lines: The TIOCM_* bits.
        counts: How often CTS, DSR, RI and CD have changed; None if the driver does not count.
        errors: Receive errors since the driver started counting.
        breaks: Breaks received since the driver started counting.
    """

    lines: int
    counts: tuple[int, ...] | None
    errors: int = 0
    breaks: int = 0


class Capability(StrEnum):
    """Supported, unsupported, or unknown until it is tried.

    Three states, because some drivers do not report what they support.
    """

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialCapabilities:
    """What the platform and, where the driver reports it, this device supports.

    ``modem_lines``, ``low_latency`` and ``rs485`` are read from the driver when the port is
    opened. The other fields follow from the operating system.
    """

    platform: str
    backend: str
    custom_baudrate: Capability
    mark_space_parity: Capability
    one_point_five_stop_bits: Capability
    xon_xoff: Capability
    rts_cts: Capability
    dtr_dsr: Capability
    modem_lines: Capability
    break_signal: Capability
    exclusive_access: Capability
    low_latency: Capability
    rs485: Capability
    input_waiting: Capability
    output_waiting: Capability
    port_discovery: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCounters:
    """The driver's counters (TIOCGICOUNT), 32 bits each, since it was loaded.

    Attributes:
        received: Characters received.
        sent: Characters sent.
        framing_errors: Characters with a framing error.
        parity_errors: Characters with a parity error.
        overruns: Characters that the chip lost because the driver did not fetch them in time.
        buffer_overruns: Characters that the kernel lost because no program read them in time.
        breaks: Breaks received.
    """

    received: int
    sent: int
    framing_errors: int
    parity_errors: int
    overruns: int
    buffer_overruns: int
    breaks: int

    @property
    def total_errors(self) -> int:
        """Damaged and lost characters together. Breaks are not errors."""
        return self.framing_errors + self.parity_errors + self.overruns + self.buffer_overruns


@dataclass(frozen=True, slots=True, kw_only=True)
class PortInfo:
    """What the system knows of a port without opening it.

    ``hwid`` is a summary: ``USB VID:PID=0403:6001 SER=A5XK3RJT LOCATION=1-1.4``. Fields that
    only USB devices have are None for other ports.
    """

    device: str
    name: str | None = None
    description: str | None = None
    hwid: str | None = None
    vid: int | None = None
    pid: int | None = None
    serial_number: str | None = None
    manufacturer: str | None = None
    product: str | None = None
    location: str | None = None
    interface: str | None = None


class SerialStreamAttribute(TypedAttributeSet):
    """Typed attributes of a serial port, such as ``port.extra(SerialStreamAttribute.config)``."""

    #: what the device supports
    capabilities: SerialCapabilities = typed_attribute()
    #: the settings in force
    config: SerialConfig = typed_attribute()
    #: what the system knows of the device; absent if it knows nothing
    port_info: PortInfo = typed_attribute()
