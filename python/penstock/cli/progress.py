"""What is known of a run while it goes on: counts and last values, fed by every poll.

Plain data without input or output: the live table, the lines, the summary and the plot read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.cli.plan import DevicePlan
from penstock.cli.trace import Trace

__all__ = ["DeviceProgress", "Progress", "Quantity", "choose_quantity"]

_SETPOINT_SUFFIX = "_Setpt"
_PREFERRED = ("Mass_Flow", "Volu_Flow", "Abs_Press")


@dataclass(frozen=True, slots=True)
class Quantity:
    """The column that is shown of a device, its setpoint's column (None on a meter) and unit."""

    name: str
    setpoint: str | None
    unit: str | None

    @property
    def label(self) -> str:
        return self.name.replace("_", " ").lower().replace("volu ", "volumetric ")


def choose_quantity(fields: dict[str, str | None]) -> Quantity | None:
    """The quantity worth watching among the numeric *fields* (name to unit), in frame order.

    A controller shows what it controls: the column that its setpoint column is named after. A
    meter shows its flow, or else its pressure, or else its first number. None without a number.
    """
    for name in fields:
        controlled = name.removesuffix(_SETPOINT_SUFFIX)
        if controlled != name:
            # Pressure controllers name the columns unlike: "Press_Setpt" beside "Abs_Press".
            value = next((f for f in fields if f != name and f.endswith(controlled)), None)
            if value is not None:
                return Quantity(value, name, fields[value])
    for name in (*_PREFERRED, *fields):
        if name in fields:
            return Quantity(name, None, fields[name])
    return None


@dataclass(slots=True)
class DeviceProgress:
    """The running account of one device.

    ``samples`` counts rows, failed polls included, ``errors`` the failed polls among them and
    ``late`` the slots that were skipped: the recorder's own counts, so that they agree with the
    files. ``error`` is that of the newest poll, None after an answer; ``last_error`` stays.
    """

    plan: DevicePlan
    quantity: Quantity | None = None
    value: float | None = None
    setpoint: float | None = None
    status: str = ""
    error: str | None = None
    last_error: str | None = None
    samples: int = 0
    errors: int = 0
    late: int = 0
    worst_latency_s: float = 0.0
    trace: Trace = field(default_factory=Trace)

    @property
    def unit(self) -> str:
        return (self.quantity.unit or "") if self.quantity is not None else ""

    def answered(
        self,
        *,
        at: float,
        value: float | None,
        setpoint: float | None,
        status: str,
        latency_s: float,
    ) -> None:
        """Take note of an answer that came *at* seconds after the start."""
        self.value = value
        self.setpoint = setpoint
        self.status = status
        self.error = None
        self.worst_latency_s = max(self.worst_latency_s, latency_s)
        if value is not None:
            self.trace.add(at, value, setpoint)

    def failed(self, *, at: float, error: str) -> None:
        """Take note of a poll that failed *at* seconds after the start.

        The last value stays, so that a reader sees what it was; the status tells that it is old.
        """
        self.error = self.last_error = error
        self.trace.gap(at)


@dataclass(slots=True)
class Progress:
    """The running account of a run."""

    devices: dict[str, DeviceProgress]
    rate_hz: float
    duration: float | None
    elapsed: float = 0.0
    max_drift_ms: float = 0.0
    failed_steps: list[str] = field(default_factory=list)

    @property
    def samples(self) -> int:
        return sum(device.samples for device in self.devices.values())

    @property
    def errors(self) -> int:
        return sum(device.errors for device in self.devices.values())

    @property
    def late(self) -> int:
        return sum(device.late for device in self.devices.values())

    @property
    def counts(self) -> str:
        """``"800 samples, 2 late, 1 error"``."""
        return (
            f"{_counted(self.samples, 'sample')}, {self.late} late, "
            f"{_counted(self.errors, 'error')}"
        )

    @property
    def device_count(self) -> str:
        """``"4 devices"``."""
        return _counted(len(self.devices), "device")

    @property
    def worst_latency_s(self) -> float:
        return max((device.worst_latency_s for device in self.devices.values()), default=0.0)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
