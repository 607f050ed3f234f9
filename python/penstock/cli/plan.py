"""What a run is to do, as plain data: checked before any port is opened or any file created."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["FORMATS", "DevicePlan", "RunPlan", "SetpointStep"]

FORMATS = ("parquet", "csv")
"""The file formats that a run can write, in the order in which they are listed to users."""


@dataclass(frozen=True, slots=True)
class SetpointStep:
    """A setpoint command: *value*, in the device's own unit, *at* seconds after the start."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """One instrument of a run. ``timeout`` is in seconds and holds for one reply."""

    name: str
    port: str
    unit_id: str = "A"
    baudrate: int = 19200
    timeout: float = 0.5
    steps: tuple[SetpointStep, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: unit id {self.unit_id} on {self.port} at {self.baudrate} baud"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A whole run. ``duration`` in seconds, None until a signal; ``out`` is the run's folder."""

    devices: tuple[DevicePlan, ...]
    out: Path
    rate_hz: float = 10.0
    duration: float | None = None
    formats: tuple[str, ...] = FORMATS
    overwrite: bool = False
    plot: bool = True

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The files of samples, one a format."""
        return tuple(self.out / f"samples.{name}" for name in self.formats)

    @property
    def plot_files(self) -> tuple[Path, ...]:
        """The pictures, none where the plot is switched off."""
        return (self.out / "flow.svg", self.out / "flow.png") if self.plot else ()
