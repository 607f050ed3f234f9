"""The plan of a run, as plain data: checked before any port is opened or file created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.cli._dashboard.plan import DashPlan
from penstock.cli._limits import LimitPlan
from penstock.record import SigningKey

FORMATS = ("parquet", "csv", "jsonl", "sqlite", "arrow", "parts")
"""The formats that a run can write, in the order shown to users. ``parts`` is a folder of Parquet
files for long runs."""

DEFAULT_FORMATS = ("parquet", "csv")


@dataclass(frozen=True, slots=True)
class SetpointStep:
    """A setpoint command: send ``value``, in the device's unit, ``at`` seconds after the start."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class ModbusPlan:
    """How an instrument is asked by Modbus: ``framing`` is ``rtu`` or ``tcp``.

    ``units`` are the labels of the units that it is set to, by quantity; ``decimals`` those of the
    flow of a BASIS instrument. ``assume_same``: after a lost line, no other can be there.
    """

    framing: str
    number: int
    family: str
    units: Mapping[str, str] = field(default_factory=dict)
    decimals: int | None = None
    assume_same: bool = False


@dataclass(frozen=True, slots=True)
class SafeStatePlan:
    """What a controller is left doing: ``setpoint`` in ``unit``, or None to hold its valves.

    ``ramp`` is how fast the setpoint is reached, in ``unit`` a second.
    """

    setpoint: float | None = None
    unit: str | None = None
    ramp: float | None = None
    on_alarm: bool = True
    on_exit: bool = True


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """One instrument of a run.

    ``unit_id`` is its letter, or its Modbus number as text. ``timeout`` is the time limit of one
    reply in seconds; ``rate_hz`` the polls a second, None for the run's. ``modbus`` is None for the
    text protocol. ``required``: there is no run without it. ``limits`` of fields raise alarms.
    ``safe_state`` is what it is left doing after an alarm and at the end.
    """

    name: str
    port: str
    unit_id: str = "A"
    baudrate: int = 19200
    timeout: float = 0.5
    steps: tuple[SetpointStep, ...] = ()
    rate_hz: float | None = None
    modbus: ModbusPlan | None = None
    required: bool = False
    limits: tuple[LimitPlan, ...] = ()
    safe_state: SafeStatePlan | None = None

    def __str__(self) -> str:
        if self.modbus is not None:
            return f"{self.name}: Modbus number {self.unit_id} on {self.port}"
        return f"{self.name}: unit id {self.unit_id} on {self.port} at {self.baudrate} baud"


@dataclass(frozen=True, slots=True)
class AlarmPlan:
    """The ``[alarm]`` of a run: who is told.

    ``command`` is a program with arguments, or empty, and ``timeout`` the seconds that it may take.
    ``webhook`` and ``mqtt`` are URLs, ``secret_file`` and ``password_file`` what they need.
    ``book`` is the file with the states of alarms, by default in the folder of the run; ``latch``
    keeps an alarm until it is reset.
    """

    command: tuple[str, ...] = ()
    timeout: float = 10.0
    webhook: str | None = None
    secret_file: str | None = None
    mqtt: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    book: Path | None = None
    latch: bool = False

    @property
    def has_book(self) -> bool:
        """Whether the states of alarms are kept."""
        return self.webhook is not None or self.mqtt is not None or self.book is not None


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """A server that the run goes to beside its files; ``options`` are those of its sink."""

    url: str
    options: Mapping[str, str | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A whole run. ``duration`` in seconds, None means until a signal; ``out`` is the folder.

    ``force`` lets ``resume`` cut off an end that is more than a kill can tear.
    ``fallback`` is a folder for the files that can no longer be written in ``out``.
    ``sign`` is the key that signs the seals of the files.
    ``metrics`` is the address at which Prometheus asks for the last values and the counts.
    """

    devices: tuple[DevicePlan, ...]
    out: Path
    rate_hz: float = 10.0
    duration: float | None = None
    formats: tuple[str, ...] = DEFAULT_FORMATS
    overwrite: bool = False
    plot: bool = True
    resume: bool = False
    force: bool = False
    fallback: Path | None = None
    sign: SigningKey | None = None
    postgres_dsn: str | None = None
    dash: DashPlan | None = None
    alarm: AlarmPlan | None = None
    sinks: tuple[SinkPlan, ...] = ()
    metrics: str | None = None

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The sample files, one per format."""
        return tuple(
            self.out / ("samples" if name == "parts" else f"samples.{name}")
            for name in self.formats
        )

    @property
    def plot_files(self) -> tuple[Path, ...]:
        """The plot files; none if the plot is switched off."""
        return (self.out / "flow.svg", self.out / "flow.png") if self.plot else ()
