"""What a device's methods return, and one question to many devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, IntEnum
from time import monotonic_ns, time_ns
from typing import Generic, Protocol, TypeVar

from penstock._record import filled
from penstock.alicat._instrument.kinds import Capability, Medium
from penstock.alicat._instrument.reading import Reading, StatusCode, slots_of, utc_from_unix_ns
from penstock.alicat.errors import AlicatError, ErrorContext
from penstock.alicat.registry import Statistic

ALGORITHM_REGISTER = 85
GAIN_REGISTERS = {"proportional": 21, "derivative": 22, "integral": 23}


class LoopAlgorithm(IntEnum):
    """How a control loop computes its valve's drive; the value is what register 85 holds."""

    PD_PDF = 1
    """Proportional and derivative; the integral gain is not used."""
    PD2I = 2


@dataclass(frozen=True, slots=True)
class PidSettings:
    """The gains of a control loop, as whole numbers of the instrument's own scale."""

    unit_id: str
    algorithm: LoopAlgorithm | None
    """``None`` where the instrument has only one."""
    proportional: int
    derivative: int | None
    integral: int


class SafeState(Enum):
    """What a controller does after its device was closed.

    A program that is killed closes nothing: the instrument then keeps its setpoint, whatever was
    chosen.
    """

    LEAVE = "leave"
    """It keeps its setpoint."""
    ZERO = "zero"
    """Its setpoint is zero, in whatever unit it counts."""
    HOLD = "hold"
    """Its valves are held where they are."""


T = TypeVar("T")


class ErrorPolicy(Enum):
    """What a manager does with the failures of its devices."""

    RAISE = "raise"
    """Finish with every device, then raise an ``ExceptionGroup`` of the failures."""
    RETURN = "return"
    """Return every device's result; failures are in :attr:`DeviceResult.error`."""


@dataclass(frozen=True, slots=True)
class DeviceResult(Generic[T]):
    """A value or the error in its place, with the times of both ends.

    For a value: when it was requested and received. For an error: when the device's turn came and
    when it failed.
    """

    value: T | None
    error: AlicatError | None
    requested_monotonic_ns: int
    requested_unix_ns: int
    received_monotonic_ns: int
    received_unix_ns: int

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.error is None

    @property
    def requested_at(self) -> datetime:
        """When it was asked for (UTC)."""
        return utc_from_unix_ns(self.requested_unix_ns)

    @property
    def received_at(self) -> datetime:
        """When it was received or failed (UTC)."""
        return utc_from_unix_ns(self.received_unix_ns)

    @classmethod
    def of_reading(cls, reading: Reading) -> DeviceResult[Reading]:
        """The result of a reading."""
        return filled(
            DeviceResult,
            _SLOTS_OF_RESULT,
            reading,
            None,
            reading.requested_monotonic_ns,
            reading.requested_unix_ns,
            reading.monotonic_ns,
            reading.received_unix_ns,
        )

    @classmethod
    def failure(
        cls, error: AlicatError, *, requested_monotonic_ns: int, requested_unix_ns: int
    ) -> DeviceResult[T]:
        """The result of a question that has just failed."""
        return cls(
            None, error, requested_monotonic_ns, requested_unix_ns, monotonic_ns(), time_ns()
        )


_SLOTS_OF_RESULT = slots_of(DeviceResult)


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


class Pollable(Protocol):
    """A device that is asked for a reading."""

    async def poll(self) -> Reading:
        """Ask for one reading; raises an :class:`AlicatError` where there is none."""


D = TypeVar("D", bound=Pollable)


async def poll_in_turn(
    devices: Sequence[tuple[str, D]], results: dict[str, DeviceResult[Reading]]
) -> None:
    """Poll each device and put its result, or its failure, into ``results`` under its name."""
    for name, device in devices:
        requested_ns, requested_unix_ns = monotonic_ns(), time_ns()
        try:
            results[name] = DeviceResult.of_reading(await device.poll())
        except AlicatError as error:
            results[name] = DeviceResult[Reading].failure(
                error, requested_monotonic_ns=requested_ns, requested_unix_ns=requested_unix_ns
            )
