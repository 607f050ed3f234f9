"""The base of all instruments: the methods that every kind has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from penstock.alicat._instrument.identity import CapabilityEvidence, probe_capabilities
from penstock.alicat._instrument.kinds import Capability
from penstock.alicat._instrument.results import (
    AlicatDeviceSnapshot,
    DisplayLockResult,
    MeasurementSet,
    SafeState,
    TareResult,
    TotalizerResetResult,
)
from penstock.alicat._instrument.setpoints import FullScaleValue
from penstock.alicat._session.session import Session, SessionState
from penstock.alicat._session.streaming import StreamingSession
from penstock.alicat.commands import (
    AnalogOutputChannel,
    AnalogOutputSourceRequest,
    AnalogOutputSourceSetting,
    AverageTimingRequest,
    AverageTimingSetting,
    BlinkDisplayRequest,
    BlinkDisplayState,
    Command,
    Commands,
    CreateMixRequest,
    DeleteMixRequest,
    EngineeringUnitsRequest,
    FullScaleQueryRequest,
    GasListRequest,
    GasMix,
    GasSelectLegacyRequest,
    GasSelectRequest,
    GasState,
    LockDisplayRequest,
    PowerUpTareRequest,
    PowerUpTareState,
    ReadRegisterRequest,
    RequestDataRequest,
    StpNtpMode,
    StpNtpPressureRequest,
    StpNtpPressureSetting,
    StpNtpTemperatureRequest,
    StpNtpTemperatureSetting,
    TableCommand,
    TareAbsolutePressureRequest,
    TareFlowRequest,
    TareGaugePressureRequest,
    TotalizerConfig,
    TotalizerConfigRequest,
    TotalizerId,
    TotalizerLimitMode,
    TotalizerMode,
    TotalizerResetPeakRequest,
    TotalizerResetRequest,
    TotalizerSaveRequest,
    TotalizerSaveState,
    UnitSetting,
    UnlockDisplayRequest,
    UserDataRequest,
    UserDataSetting,
    WriteRegisterRequest,
    ZeroBandRequest,
    ZeroBandSetting,
)
from penstock.alicat.errors import (
    AlicatCapabilityError,
    AlicatCommandRejectedError,
    AlicatError,
    AlicatFirmwareError,
    ErrorContext,
    UnknownGasError,
)
from penstock.alicat.registry import Gas, Statistic, Unit
from penstock.alicat.registry.units import unit_number
from penstock.overflow import OverflowPolicy

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from penstock.alicat._bus.client import AlicatProtocolClient
    from penstock.alicat._instrument.data_frame import DataFrameFormat
    from penstock.alicat._instrument.events import DeviceEvent
    from penstock.alicat._instrument.identity import DeviceInfo
    from penstock.alicat._instrument.reading import FieldSchema, Reading

Req = TypeVar("Req")
Resp = TypeVar("Resp")


class Device:
    """An open instrument. :func:`open_device` makes one.

    It belongs to one event loop and is not thread-safe. Several tasks may call it at once: their
    commands queue on the bus.

    Cancellation: a cancelled call releases the bus, and its late answer is not taken for that of
    another call. As after a timeout, it is unknown whether the instrument has executed the command.

    Every method that sends a command may raise what :meth:`Session.execute` raises. A method that
    can set a value reads it if no value is passed.
    """

    def __init__(
        self,
        session: Session,
        *,
        owns_client: bool = False,
        safe_state: SafeState = SafeState.LEAVE,
    ) -> None:
        self._session = session
        self.owns_client = owns_client
        """Whether the client is closed with the device."""
        self._safe_state = safe_state
        self._closed = False

    # -- what is known without asking

    @property
    def session(self) -> Session:
        """What is known of the instrument; executes its commands."""
        return self._session

    @property
    def info(self) -> DeviceInfo:
        """Model, serial number, firmware, calibration and the other facts that it reported."""
        return self._session.info

    @property
    def unit_id(self) -> str:
        """The instrument's letter on the bus."""
        return self._session.unit_id

    @property
    def client(self) -> AlicatProtocolClient:
        """The client of the instrument's bus."""
        return self._session.client

    @property
    def data_frame_format(self) -> DataFrameFormat:
        """The columns of its data frame."""
        return self._session.data_frame_format

    def field_schema(self) -> tuple[FieldSchema, ...]:
        """Name, kind and unit of every field of its readings, in order, before the first."""
        return self._session.data_frame_format.field_schema()

    def subscribe(self, callback: Callable[[DeviceEvent], None]) -> Callable[[], None]:
        """Call ``callback`` with every event; see :meth:`Session.subscribe`."""
        return self._session.subscribe(callback)

    async def snapshot(self) -> AlicatDeviceSnapshot:
        """Return what is known about the device. Sends nothing."""
        info, session = self.info, self._session
        statistics = session.client.statistics
        return AlicatDeviceSnapshot(
            name=f"{info.unit_id} on {session.port_label}",
            model=info.model,
            firmware=str(info.firmware),
            serial=info.serial,
            connected=session.state is SessionState.OPERATIONAL and session.client.is_open,
            last_error=session.last_error,
            recoverable_error_count=statistics.timeouts + statistics.malformed,
            captured_at=datetime.now(UTC),
            unit_id=info.unit_id,
            media=info.media,
            capabilities=info.capabilities,
        )

    async def probe_capabilities(self) -> Mapping[Capability, CapabilityEvidence]:
        """Ask for the optional hardware that an instrument can be asked for.

        These are barometer, second pressure sensor and totalizer. Other hardware must be stated
        with ``assume_capabilities``. Afterwards :attr:`info` holds the answers in ``capabilities``,
        and the evidence for each in ``probe_report``. Changes nothing on the instrument.
        """
        return await probe_capabilities(self)

    # -- measured values

    async def poll(self) -> Reading:
        """Ask for one data frame.

        Raises:
            AlicatTimeoutError: no frame came in time.
            AlicatProtocolError: another line arrived. A value of an older frame or of another unit
                is never returned.
            AlicatConnectionError: the port is lost or closed, or was not reopened yet.
        """
        return await self._session.poll()

    async def request(
        self, statistics: Sequence[Statistic | str | int], *, averaging_ms: int = 1
    ) -> MeasurementSet:
        """Measure up to 13 statistics, each averaged over ``averaging_ms`` (1 to 9999).

        The answer carries no letter, so the question is sent only while no unit of the bus owes an
        answer.
        """
        wanted = [Statistic.coerce(statistic) for statistic in statistics]
        request = RequestDataRequest(wanted, averaging_ms)
        values = await self.execute(Commands.REQUEST_DATA, request)
        measured = MappingProxyType(dict(zip(wanted, values, strict=True)))
        return MeasurementSet(self.unit_id, measured, averaging_ms, datetime.now(UTC))

    async def full_scale(self, statistic: Statistic | str | int) -> FullScaleValue | None:
        """The instrument's full scale of a quantity; ``None`` if it does not measure the quantity.

        Raises:
            UnknownStatisticError: there is no such quantity.
            AlicatFirmwareError: GP firmware does not report it.
        """
        try:
            return await self.execute(Commands.FULL_SCALE_QUERY, FullScaleQueryRequest(statistic))
        except AlicatCommandRejectedError as error:
            if error.context.raw_response and error.context.raw_response.endswith(b"--"):
                return None
            raise

    async def refresh_data_frame_format(self) -> DataFrameFormat:
        """Read the columns of the data frame again, after units were changed on the panel."""
        return await self._session.refresh_data_frame_format()

    # -- gas and units

    async def gas(
        self, gas: Gas | str | int | None = None, *, save: bool | None = None
    ) -> GasState:
        """Read the gas that the instrument is set to, or select another.

        ``gas`` is a name or a number; a mix is found by its name too. ``save`` keeps it over a
        power cycle. Firmware before 10v05 can neither report the gas nor save it.

        Raises:
            UnknownGasError: there is no such gas.
            AlicatFirmwareError: the firmware is too old to report the gas.
        """
        firmware = self.info.firmware
        if isinstance(gas, str) and Gas.from_name(gas) is None:
            gas = await self._number_of_mix(gas)
        if gas is None or firmware in Commands.GAS_SELECT.firmware:
            return await self.execute(Commands.GAS_SELECT, GasSelectRequest(gas, save))
        if save is not None:
            raise AlicatFirmwareError(
                f"unit {self.unit_id} has firmware {firmware}, which always saves its gas: leave "
                "out save",
                command="G",
                reason="firmware_out_of_range",
                actual=firmware,
            )
        reading = await self._session.execute_for_reading(
            Commands.GAS_SELECT_LEGACY, GasSelectLegacyRequest(gas)
        )
        label = str(reading.get_statistic(Statistic.FLUID_NAME) or "")
        try:
            shown: Gas | None = Gas.coerce(label)
        except UnknownGasError:
            shown = None
        code = gas if isinstance(gas, int) else Gas.coerce(gas).code
        return GasState(self.unit_id, code, shown, label, "")

    async def _number_of_mix(self, name: str) -> Gas | int:
        """The number of a gas that the instrument itself lists by this name."""
        with suppress(AlicatCapabilityError, AlicatCommandRejectedError):
            for number, listed in (await self.gas_list()).items():
                if listed.strip().casefold() == name.strip().casefold():
                    return number
        return Gas.coerce(name)  # raises, and suggests near names

    async def gas_list(self) -> Mapping[int, str]:
        """The gases that the instrument knows, their short names by number."""
        gases = await self.execute(Commands.GAS_LIST, GasListRequest())
        return MappingProxyType(gases)

    async def engineering_units(
        self,
        statistic: Statistic | str | int,
        unit: Unit | int | str | None = None,
        *,
        apply_to_group: bool = False,
        override_special_rules: bool = False,
    ) -> UnitSetting:
        """Read the unit that a quantity is shown in, or choose another: a unit or its code.

        ``apply_to_group`` changes its whole group, such as all flows. The data frame's format is
        read again afterwards.

        Raises:
            UnknownUnitError: that quantity is not shown in that unit.
        """
        quantity = Statistic.coerce(statistic)
        code = None if unit is None else unit_number(unit, quantity)
        return await self.execute(
            Commands.ENGINEERING_UNITS,
            EngineeringUnitsRequest(quantity, code, apply_to_group, override_special_rules),
        )

    async def create_mix(
        self, number: int, name: str, gases: Mapping[Gas | str | int, float]
    ) -> GasMix:
        """Store a mix of gases under ``number`` (236 to 255); see :class:`CreateMixRequest`.

        A mix that has the number is replaced. Select it with ``gas(number)``.
        """
        return await self.execute(Commands.CREATE_MIX, CreateMixRequest(number, name, gases))

    async def delete_mix(self, number: int, *, confirm: bool = False) -> GasMix:
        """Delete a mix.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
        """
        return await self.execute(Commands.DELETE_MIX, DeleteMixRequest(number, confirm))

    # -- taring

    async def tare_flow(self) -> TareResult:
        """Tare: the present flow becomes zero. The caller makes sure that nothing flows."""
        return TareResult(
            await self._session.execute_for_reading(Commands.TARE_FLOW, TareFlowRequest())
        )

    async def tare_gauge_pressure(self) -> TareResult:
        """Tare: the present gauge pressure becomes zero.

        The caller makes sure that the line is vented.
        """
        return TareResult(
            await self._session.execute_for_reading(
                Commands.TARE_GAUGE_PRESSURE, TareGaugePressureRequest()
            )
        )

    async def tare_absolute_pressure(self) -> TareResult:
        """Set the absolute pressure to the barometer's.

        The caller makes sure that the line is vented.
        """
        return TareResult(
            await self._session.execute_for_reading(
                Commands.TARE_ABSOLUTE_PRESSURE, TareAbsolutePressureRequest()
            )
        )

    async def power_up_tare(self, enable: bool | None = None) -> PowerUpTareState:
        """Read or set whether the instrument tares when it is switched on."""
        return await self.execute(Commands.POWER_UP_TARE, PowerUpTareRequest(enable))

    # -- conditions of measuring

    async def zero_band(self, zero_band: float | None = None) -> ZeroBandSetting:
        """Read or set up to how many percent of full scale (0 to 6.38) a value is shown as zero."""
        return await self.execute(Commands.ZERO_BAND, ZeroBandRequest(zero_band))

    async def average_timing(
        self, statistic_code: Statistic | str | int, averaging_ms: int | None = None
    ) -> AverageTimingSetting:
        """Read or set over how many milliseconds (0 to 9999) a statistic is averaged.

        Args:
            statistic_code: A statistic, its name or its number; 1 stands for all.
            averaging_ms: The time.
        """
        return await self.execute(
            Commands.AVERAGE_TIMING,
            AverageTimingRequest(Statistic.number_of(statistic_code), averaging_ms),
        )

    async def stp_ntp_pressure(
        self,
        mode: StpNtpMode,
        pressure: float | None = None,
        unit_code: Unit | str | int | None = None,
    ) -> StpNtpPressureSetting:
        """Read or set the pressure that standardised or normalised flow refers to.

        ``unit_code`` is the unit of ``pressure`` or its code; without it, the unit stays.

        Raises:
            UnknownUnitError: that is not a unit of pressure.
        """
        code = None if unit_code is None else unit_number(unit_code, Statistic.ABS_PRESS)
        return await self.execute(
            Commands.STP_NTP_PRESSURE, StpNtpPressureRequest(mode, pressure, code)
        )

    async def stp_ntp_temperature(
        self,
        mode: StpNtpMode,
        temperature: float | None = None,
        unit_code: Unit | str | int | None = None,
    ) -> StpNtpTemperatureSetting:
        """Read or set the temperature that standardised or normalised flow refers to.

        ``unit_code`` is the unit of ``temperature`` or its code; without it, the unit stays.

        Raises:
            UnknownUnitError: that is not a unit of temperature.
        """
        code = None if unit_code is None else unit_number(unit_code, Statistic.TEMP_STREAM)
        return await self.execute(
            Commands.STP_NTP_TEMPERATURE, StpNtpTemperatureRequest(mode, temperature, code)
        )

    # -- outputs, panel, notes

    async def analog_output_source(
        self,
        channel: AnalogOutputChannel = AnalogOutputChannel.PRIMARY,
        value: Statistic | str | int | None = None,
        unit_code: Unit | str | int | None = None,
    ) -> AnalogOutputSourceSetting:
        """Read or choose what an analogue output shows.

        Args:
            channel: The output.
            value: A statistic, its name or its number; 0 and 1 are the lowest and the highest
                level.
            unit_code: The unit of the statistic or its code; without it, the unit stays.

        Raises:
            UnknownUnitError: that quantity is not shown in that unit.
        """
        number = None if value is None else Statistic.number_of(value)
        if isinstance(unit_code, str):
            # The command refuses a unit without a value.
            unit_code = 0 if number is None else unit_number(unit_code, Statistic.by_code(number))
        return await self.execute(
            Commands.ANALOG_OUTPUT_SOURCE, AnalogOutputSourceRequest(channel, number, unit_code)
        )

    async def blink_display(self, duration_s: int | None = None) -> BlinkDisplayState:
        """Let the display blink for some seconds (-1: until 0 is sent), or read its state."""
        return await self.execute(Commands.BLINK_DISPLAY, BlinkDisplayRequest(duration_s))

    async def lock_display(self) -> DisplayLockResult:
        """Lock the buttons of the panel."""
        return DisplayLockResult(
            await self._session.execute_for_reading(Commands.LOCK_DISPLAY, LockDisplayRequest())
        )

    async def unlock_display(self) -> DisplayLockResult:
        """Unlock the buttons of the panel."""
        return DisplayLockResult(
            await self._session.execute_for_reading(Commands.UNLOCK_DISPLAY, UnlockDisplayRequest())
        )

    async def user_data(self, slot: int, value: str | None = None) -> UserDataSetting:
        """Read or write one of the four texts that the instrument keeps for its user."""
        return await self.execute(Commands.USER_DATA, UserDataRequest(slot, value))

    # -- totals

    async def totalizer_config(
        self,
        totalizer: TotalizerId = TotalizerId.FIRST,
        *,
        flow_statistic_code: Statistic | str | int | None = None,
        mode: TotalizerMode | None = None,
        limit_mode: TotalizerLimitMode | None = None,
        digits: int | None = None,
        decimal_place: int | None = None,
    ) -> TotalizerConfig:
        """Read or set what a totalizer counts.

        ``flow_statistic_code``: a statistic, its name or its number; 1 switches the totalizer off.

        The data frame's format is read again after a change.
        """
        code = None if flow_statistic_code is None else Statistic.number_of(flow_statistic_code)
        request = TotalizerConfigRequest(totalizer, code, mode, limit_mode, digits, decimal_place)
        return await self.execute(Commands.TOTALIZER_CONFIG, request)

    async def totalizer_reset(
        self, totalizer: TotalizerId = TotalizerId.FIRST, *, confirm: bool = False
    ) -> TotalizerResetResult:
        """Reset the total to zero.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
        """
        return TotalizerResetResult(
            await self._session.execute_for_reading(
                Commands.TOTALIZER_RESET, TotalizerResetRequest(totalizer, confirm)
            )
        )

    async def totalizer_reset_peak(
        self, totalizer: TotalizerId = TotalizerId.FIRST, *, confirm: bool = False
    ) -> TotalizerResetResult:
        """Reset the peak.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
        """
        return TotalizerResetResult(
            await self._session.execute_for_reading(
                Commands.TOTALIZER_RESET_PEAK, TotalizerResetPeakRequest(totalizer, confirm)
            )
        )

    async def totalizer_save(
        self, enable: bool | None = None, *, save: bool | None = None
    ) -> TotalizerSaveState:
        """Read or set whether the totals are kept over a power cycle."""
        return await self.execute(Commands.TOTALIZER_SAVE, TotalizerSaveRequest(enable, save))

    # -- registers

    async def read_register(self, register: int) -> int:
        """The value of a numbered register."""
        answer = await self.execute(Commands.READ_REGISTER, ReadRegisterRequest(register))
        return answer.value

    async def write_register(self, register: int, value: int, *, confirm: bool = False) -> int:
        """Write a numbered register. The data frame's format is read again afterwards.

        Returns:
            The value that the instrument reports afterwards, which is ``value``.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
            AlicatCommandRejectedError: the instrument reports another value.
        """
        answer = await self.execute(
            Commands.WRITE_REGISTER, WriteRegisterRequest(register, value, confirm)
        )
        if answer.value != value:
            raise AlicatCommandRejectedError(
                f"unit {self.unit_id} rejected {value} for register {register}, which reads "
                f"{answer.value}: write a value that the instrument accepts",
                context=ErrorContext(unit_id=self.unit_id, port=self.client.label),
            )
        return answer.value

    # -- streaming

    def stream(
        self,
        *,
        rate_hz: float | None = None,
        strict: bool = False,
        overflow: OverflowPolicy | None = None,
        buffer_size: int = 256,
    ) -> StreamingSession:
        """Readings that the instrument sends by itself; see :class:`StreamingSession`.

        ``rate_hz`` sets how many a second (firmware 10v05 and newer); without it, the instrument
        keeps its interval.
        """
        return StreamingSession(
            self._session,
            rate_hz=rate_hz,
            strict=strict,
            overflow=overflow or OverflowPolicy.DROP_OLDEST,
            buffer_size=buffer_size,
        )

    # -- anything

    async def change_unit_id(self, new_unit_id: str, *, confirm: bool = False) -> None:
        """Give the instrument another letter; see :meth:`Session.change_unit_id`."""
        await self._session.change_unit_id(new_unit_id, confirm=confirm)

    async def change_baud_rate(self, baudrate: int, *, confirm: bool = False) -> None:
        """Change the instrument's baud rate; see :meth:`Session.change_baud_rate`."""
        await self._session.change_baud_rate(baudrate, confirm=confirm)

    async def execute(
        self, command: Command[Req, Resp] | TableCommand[Req, Resp], request: Req
    ) -> Resp:
        """Execute a command of the catalogue; see :meth:`Session.execute`."""
        return await self._session.execute(command, request)

    async def close(self) -> None:
        """Close the device, and its port unless other devices share it.

        A controller is first brought into the safe state that it was opened with. By default
        nothing is sent, and it keeps its setpoint. A cancellation takes effect after this attempt.
        Further calls do nothing.

        Raises:
            AlicatError: the safe state could not be reached. Device and port are closed all the
                same.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._safe_state is not SafeState.LEAVE:
                with self.client.waiting.scope(shield=True):
                    await self._reach_safe_state(self._safe_state)
        finally:
            self._session.close()
            if self.owns_client:
                await self.client.aclose()

    async def _reach_safe_state(self, state: SafeState) -> None:
        """Bring a controller into ``state``. Meters have no safe state."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except AlicatError as error:
            if exc is None:
                raise
            # The exception that ended the block matters more, and must not be hidden by a later
            # one.
            exc.add_note(f"and the safe state was not reached: {error}")

    def __repr__(self) -> str:
        info = self.info
        return (
            f"<{type(self).__name__} {info.unit_id} {info.model or 'of unknown model'} "
            f"on {self.client.label}>"
        )


class FlowMeter(Device):
    """Measures flow."""


class PressureMeter(Device):
    """Measures pressure."""
