"""What a port can do, in three states, because some drivers do not say until they are tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Capability", "SerialCapabilities"]


class Capability(StrEnum):
    """Supported, unsupported, or unknown until it is tried."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialCapabilities:
    """What the platform and, where the driver tells, this very device can do.

    ``modem_lines``, ``low_latency`` and ``rs485`` are asked from the driver when the port is
    opened. The others follow from the operating system.
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
