"""The results of commands that are answered by a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from penstock.alicat._frames.reading import Reading
from penstock.alicat._instrument.kinds import Capability, Medium
from penstock.alicat._instrument.status import StatusCode
from penstock.alicat.errors import ErrorContext
from penstock.alicat.registry import Statistic

__all__ = [
    "AlicatDeviceSnapshot",
    "DisplayLockResult",
    "MeasurementSet",
    "TareResult",
    "TotalizerResetResult",
    "ValveHoldResult",
]


@dataclass(frozen=True, slots=True)
class TareResult:
    """The reading after a tare."""

    reading: Reading


@dataclass(frozen=True, slots=True)
class ValveHoldResult:
    """The reading after the valves were held or released."""

    reading: Reading

    @property
    def held(self) -> bool:
        """Whether the frame says that the valves are held. Those of firmware 5v do not show it."""
        return StatusCode.HLD in self.reading.status


@dataclass(frozen=True, slots=True)
class DisplayLockResult:
    """The reading after the panel was locked or unlocked."""

    reading: Reading

    @property
    def locked(self) -> bool:
        """Whether the panel is locked."""
        return StatusCode.LCK in self.reading.status


@dataclass(frozen=True, slots=True)
class TotalizerResetResult:
    """The reading after a totalizer was reset."""

    reading: Reading


@dataclass(frozen=True, slots=True)
class MeasurementSet:
    """Chosen statistics, measured together."""

    unit_id: str
    values: Mapping[Statistic, float | None]
    """``None`` for a quantity that the instrument does not have."""
    averaging_ms: int
    received_at: datetime


@dataclass(frozen=True, slots=True)
class AlicatDeviceSnapshot:
    """What is known about a device without asking it."""

    name: str
    model: str | None
    firmware: str | None
    serial: str | None
    connected: bool
    last_error: ErrorContext | None
    recoverable_error_count: int
    captured_at: datetime
    unit_id: str | None
    media: Medium | None
    capabilities: Capability
