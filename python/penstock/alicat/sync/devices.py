"""Instruments as objects, without an event loop: each made of its asynchronous twin.

Each method is the asynchronous one, run to its end in the calling thread: the same checks, the same
bytes and the same errors, and one implementation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
)

from penstock.alicat._devices.basis_and_coda import (
    BasisController,
    BasisMeter,
    CodaController,
    CodaMeter,
)
from penstock.alicat._devices.controller import FlowController, PressureController
from penstock.alicat._devices.device import Device, FlowMeter, PressureMeter
from penstock.alicat._instrument.reading import FieldSchema
from penstock.alicat._session.streaming import StreamedFrames
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.sync.waiting import run_without_loop

if TYPE_CHECKING:
    from penstock.alicat._bus.client import AlicatProtocolClient
    from penstock.alicat._instrument.data_frame import DataFrameField, DataFrameFormat
    from penstock.alicat._instrument.events import DeviceEvent
    from penstock.alicat._instrument.identity import DeviceInfo
    from penstock.alicat._instrument.reading import Reading
    from penstock.alicat._session.session import Session

__all__ = [
    "SyncBasisController",
    "SyncBasisMeter",
    "SyncCodaController",
    "SyncCodaMeter",
    "SyncDevice",
    "SyncFlowController",
    "SyncFlowMeter",
    "SyncPressureController",
    "SyncPressureMeter",
    "SyncStreamingSession",
    "SyncTwin",
    "blocking",
    "immediate",
    "wrap_device",
]


P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")


def blocking(
    method: Callable[Concatenate[D, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """The blocking twin of a device's asynchronous method, for a class with such a ``_device``."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # By name, so that a device of a subclass runs its own.
        coroutine: Coroutine[Any, Any, R] = getattr(self._device, name)(*args, **kwargs)
        return run_without_loop(coroutine)

    return call


def immediate(
    method: Callable[Concatenate[D, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """The same for a method that is not a coroutine."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = getattr(self._device, name)(*args, **kwargs)
        return result

    return call


class _Device(Protocol):
    @property
    def unit_id(self) -> str: ...
    def field_schema(self) -> tuple[FieldSchema, ...]: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


Twin = TypeVar("Twin", bound=_Device)


class SyncTwin(Generic[Twin]):
    """The base of the blocking twins of all devices.

    May be used from several threads: their questions queue on the bus. A call ends by its timeouts;
    a signal handler that raises (Ctrl-C) ends it too, and leaves its unit owing an answer, which
    the next call deals with.
    """

    def __init__(self, device: Twin) -> None:
        self._device = device

    @property
    def asynchronous(self) -> Twin:
        """The device whose twin this is."""
        return self._device

    @property
    def unit_id(self) -> str:
        """Its letter on the bus, or its Modbus unit number as text."""
        return self._device.unit_id

    def field_schema(self) -> tuple[FieldSchema, ...]:
        """Name, kind and unit of every field of its readings, in order, before the first."""
        return self._device.field_schema()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run_without_loop(self._device.__aexit__(exc_type, exc, traceback))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._device!r}>"


class SyncStreamingSession:
    """The readings of an instrument that streams. Made by :meth:`SyncDevice.stream`.

    ::

        with device.stream(rate_hz=20) as stream:
            for reading in stream:
                print(reading.values["Mass_Flow"])

    Entering starts the stream, leaving stops it. Frames are read as they are asked for: a program
    that does not keep up fills the driver's buffer, which then loses bytes.
    """

    def __init__(
        self, session: Session, *, rate_hz: float | None = None, strict: bool = False
    ) -> None:
        self._frames = StreamedFrames(session, rate_hz=rate_hz, strict=strict)
        self._open = False

    @property
    def skipped_frames(self) -> int:
        """Lines that were no frame of this instrument."""
        return self._frames.skipped

    def __enter__(self) -> Self:
        run_without_loop(self._frames.start())
        self._open = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open = False
        run_without_loop(self._frames.stop())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Reading:
        if not self._open:
            raise AlicatValidationError("a stream is read within its context: enter it first")
        return run_without_loop(self._frames.next())


class SyncDevice(SyncTwin[Device]):
    """An open instrument without an event loop. Made by :func:`penstock.alicat.sync.open_device`.

    Threads, timeouts and Ctrl-C are as :class:`SyncTwin` says.
    """

    @property
    def info(self) -> DeviceInfo:
        """Model, serial number, firmware, calibration and the other facts that it reported."""
        return self._device.info

    @property
    def session(self) -> Session:
        """The session with the instrument."""
        return self._device.session

    @property
    def client(self) -> AlicatProtocolClient:
        """The client of its bus, for further devices on it."""
        return self._device.client

    @property
    def data_frame_format(self) -> DataFrameFormat:
        """The columns of its data frame."""
        return self._device.data_frame_format

    def subscribe(self, callback: Callable[[DeviceEvent], None]) -> Callable[[], None]:
        """Call ``callback`` with every event, in the thread whose call noticed it."""
        return self._device.subscribe(callback)

    def stream(self, *, rate_hz: float | None = None, strict: bool = False) -> SyncStreamingSession:
        """Readings that the instrument sends by itself; see :class:`SyncStreamingSession`."""
        return SyncStreamingSession(self._device.session, rate_hz=rate_hz, strict=strict)

    snapshot: Final = blocking(Device.snapshot)
    probe_capabilities: Final = blocking(Device.probe_capabilities)
    change_unit_id: Final = blocking(Device.change_unit_id)
    change_baud_rate: Final = blocking(Device.change_baud_rate)
    poll: Final = blocking(Device.poll)
    request: Final = blocking(Device.request)
    full_scale: Final = blocking(Device.full_scale)
    refresh_data_frame_format: Final = blocking(Device.refresh_data_frame_format)
    gas: Final = blocking(Device.gas)
    gas_list: Final = blocking(Device.gas_list)
    create_mix: Final = blocking(Device.create_mix)
    delete_mix: Final = blocking(Device.delete_mix)
    engineering_units: Final = blocking(Device.engineering_units)
    tare_flow: Final = blocking(Device.tare_flow)
    tare_gauge_pressure: Final = blocking(Device.tare_gauge_pressure)
    tare_absolute_pressure: Final = blocking(Device.tare_absolute_pressure)
    power_up_tare: Final = blocking(Device.power_up_tare)
    zero_band: Final = blocking(Device.zero_band)
    average_timing: Final = blocking(Device.average_timing)
    stp_ntp_pressure: Final = blocking(Device.stp_ntp_pressure)
    stp_ntp_temperature: Final = blocking(Device.stp_ntp_temperature)
    analog_output_source: Final = blocking(Device.analog_output_source)
    blink_display: Final = blocking(Device.blink_display)
    lock_display: Final = blocking(Device.lock_display)
    unlock_display: Final = blocking(Device.unlock_display)
    user_data: Final = blocking(Device.user_data)
    totalizer_config: Final = blocking(Device.totalizer_config)
    totalizer_reset: Final = blocking(Device.totalizer_reset)
    totalizer_reset_peak: Final = blocking(Device.totalizer_reset_peak)
    totalizer_save: Final = blocking(Device.totalizer_save)
    read_register: Final = blocking(Device.read_register)
    write_register: Final = blocking(Device.write_register)
    execute: Final = blocking(Device.execute)
    close: Final = blocking(Device.close)


class SyncFlowMeter(SyncDevice):
    """Measures flow."""


class SyncPressureMeter(SyncDevice):
    """Measures pressure."""


class _SyncController(SyncDevice):
    setpoint: Final = blocking(FlowController.setpoint)
    check_setpoint: Final = blocking(FlowController.check_setpoint)
    zero_setpoint: Final = blocking(FlowController.zero_setpoint)
    setpoint_source: Final = blocking(FlowController.setpoint_source)
    loop_control_variable: Final = blocking(FlowController.loop_control_variable)
    hold_valves: Final = blocking(FlowController.hold_valves)
    hold_valves_closed: Final = blocking(FlowController.hold_valves_closed)
    cancel_valve_hold: Final = blocking(FlowController.cancel_valve_hold)
    exhaust: Final = blocking(FlowController.exhaust)
    valve_drive: Final = blocking(FlowController.valve_drive)
    ramp_rate: Final = blocking(FlowController.ramp_rate)
    ramp_options: Final = blocking(FlowController.ramp_options)
    ramp_to: Final = blocking(FlowController.ramp_to)
    settle: Final = blocking(FlowController.settle)
    deadband_limit: Final = blocking(FlowController.deadband_limit)
    auto_tare: Final = blocking(FlowController.auto_tare)
    pid: Final = blocking(FlowController.pid)
    limit_setpoint: Final = immediate(FlowController.limit_setpoint)


class SyncFlowController(_SyncController, SyncFlowMeter):
    """Measures and controls flow."""

    totalizer_batch: Final = blocking(FlowController.totalizer_batch)


class SyncPressureController(_SyncController, SyncPressureMeter):
    """Measures and controls pressure."""


class SyncBasisMeter(SyncFlowMeter):
    """A flow meter of the BASIS line."""


class SyncBasisController(SyncFlowController, SyncBasisMeter):
    """A flow controller of the BASIS line."""

    hold_valve: Final = blocking(BasisController.hold_valve)
    batch: Final = blocking(BasisController.batch)


class SyncCodaMeter(SyncFlowMeter):
    """Measures mass flow and density; of the CODA line."""

    @property
    def density_field(self) -> DataFrameField | None:
        """The column of the density, with its unit; ``None`` where its frames have none."""
        return _coda(self._device).density_field

    def density(self, reading: Reading) -> float | None:
        """The density in a reading, in the unit of its column; ``None`` if it has none."""
        return _coda(self._device).density(reading)


class SyncCodaController(SyncFlowController, SyncCodaMeter):
    """Measures and controls mass flow; of the CODA line."""


def _coda(device: Device) -> CodaMeter:
    assert isinstance(device, CodaMeter)
    return device


# Subclasses before their bases.
_CLASSES: tuple[tuple[type[Device], type[SyncDevice]], ...] = (
    (BasisController, SyncBasisController),
    (BasisMeter, SyncBasisMeter),
    (CodaController, SyncCodaController),
    (CodaMeter, SyncCodaMeter),
    (FlowController, SyncFlowController),
    (PressureController, SyncPressureController),
    (FlowMeter, SyncFlowMeter),
    (PressureMeter, SyncPressureMeter),
)


def wrap_device(device: Device) -> SyncDevice:
    """The blocking twin of a device whose client blocks."""
    for asynchronous, synchronous in _CLASSES:
        if isinstance(device, asynchronous):
            return synchronous(device)
    return SyncDevice(device)
