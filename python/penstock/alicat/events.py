"""What happened to an instrument besides its readings: told to whoever subscribes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

__all__ = ["DeviceEvent", "EventKind"]


class EventKind(StrEnum):
    """What kind of thing happened."""

    CONNECTION_LOST = "connection_lost"
    """The line or the instrument went away; its session ended."""
    RECONNECTED = "reconnected"
    """The same instrument, by its serial number, is back."""
    UNIT_CHANGED = "unit_changed"
    """An answer bore another engineering unit than the format in force."""
    FORMAT_CHANGED = "format_changed"
    """The data frame has other columns or units than before."""
    SETPOINT = "setpoint"
    GAS = "gas"
    TARE = "tare"
    SETTING = "setting"
    """Any other command that changed something."""


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """One event, stamped on both clocks in nanoseconds when it was noticed."""

    kind: EventKind
    unit_id: str
    message: str
    monotonic_ns: int
    unix_ns: int
    data: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
