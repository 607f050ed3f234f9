"""Controllers: setpoint, valves and control loop."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from penstock._renamed import renamed
from penstock.alicat._devices.device import Device, FlowMeter, PressureMeter
from penstock.alicat._devices.settling import wait_until_settled
from penstock.alicat._instrument.kinds import Capability, FirmwareFamily
from penstock.alicat._instrument.results import (
    ALGORITHM_REGISTER,
    GAIN_REGISTERS,
    LoopAlgorithm,
    PidSettings,
    SafeState,
    ValveHoldResult,
)
from penstock.alicat._instrument.setpoints import (
    FullScaleValue,
    Number,
    ProvenNumber,
    SetpointLimits,
    SetpointState,
    as_number,
    decimal_text,
)
from penstock.alicat.commands import (
    AutoTareRequest,
    AutoTareState,
    CancelValveHoldRequest,
    Command,
    Commands,
    DeadbandLimitRequest,
    DeadbandSetting,
    ExhaustRequest,
    HoldValvesClosedRequest,
    HoldValvesRequest,
    LoopControlState,
    LoopControlVariableRequest,
    RampOptions,
    RampOptionsRequest,
    RampRateRequest,
    RampRateSetting,
    SetpointLegacyRequest,
    SetpointRequest,
    SetpointSourceRequest,
    TableCommand,
    TimeUnit,
    TotalizerBatch,
    TotalizerBatchRequest,
    TotalizerId,
    ValveDriveRequest,
    ValveDriveState,
)
from penstock.alicat.errors import (
    AlicatCommandRejectedError,
    AlicatError,
    AlicatFirmwareError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ErrorContext,
)
from penstock.alicat.registry import Statistic
from penstock.alicat.registry.units import stated_label, unit_number

if TYPE_CHECKING:
    from penstock.alicat._instrument.reading import Reading
    from penstock.alicat.registry import LoopControlVariable, Unit

_log = logging.getLogger("penstock.alicat")

Req = TypeVar("Req")
Resp = TypeVar("Resp")

_SECONDS = {
    TimeUnit.MILLISECOND: 0.001,
    TimeUnit.SECOND: 1.0,
    TimeUnit.MINUTE: 60.0,
    TimeUnit.HOUR: 3600.0,
    TimeUnit.DAY: 86_400.0,
}


class _Controller(Device):
    """The common part of flow and pressure controllers."""

    _limits = SetpointLimits(None, None, None, None)
    _source: str | None = None

    async def execute(
        self, command: Command[Req, Resp] | TableCommand[Req, Resp], request: Req
    ) -> Resp:
        """Execute a command; raises as :meth:`Device.execute`.

        A setpoint has to be within the limits here too.
        """
        if isinstance(request, SetpointRequest | SetpointLegacyRequest):
            value = request.value
            # Zero is within every range, and needs no proof.
            if value and not isinstance(value, ProvenNumber):
                number = as_number(value)
                self._check_sign(number)
                proven = await self._session.prove_setpoint(number, None)
                self._check_range(proven)
                request = replace(request, value=proven)
        return await super().execute(command, request)

    async def setpoint(
        self, value: Number | None = None, unit: Unit | str | None = None
    ) -> SetpointState:
        """Read the setpoint, or set it to ``value`` and read it back.

        The number is checked before it is sent: finite, not negative unless the instrument is known
        as bidirectional, not beyond its full scale where that is known in the unit of the setpoint.

        ``unit`` is the unit of ``value``; nothing is converted. Without it, ``value`` is in the
        unit that was in force when the instrument was opened. Before the setpoint is sent, the
        instrument is asked for the unit of its setpoint. The setpoint is sent only if the unit of
        ``value``, the unit in the answer and the unit of the data frame's table are the same. It
        counts as set only if the confirmation has that unit too.

        Test :attr:`SetpointState.accepted` afterwards: a controller whose setpoint source is its
        analogue input ignores setpoints from the serial line.

        Raises:
            AlicatValidationError: the value or its unit is not valid; it was not sent.
            AlicatUnitChangedError: the instrument uses another unit than the caller, or contradicts
                itself. The message says which units differ, and whether the setpoint was sent.
            AlicatFirmwareError: GP firmware accepts no setpoint from the serial line; nothing was
            sent.
            AlicatError: as for :meth:`poll`. After a timeout it is unknown whether the value
                was set: read it.
        """
        session, firmware = self._session, self.info.firmware
        modern = firmware.has_modern_setpoint
        if value is None:
            if modern:
                return await self.execute(Commands.SETPOINT, SetpointRequest())
            return self._from_frame(await self.poll())
        wanted = as_number(value)
        if firmware.family is FirmwareFamily.GP:
            raise AlicatFirmwareError(
                f"unit {self.unit_id} has GP firmware, which does not accept a setpoint over the "
                "serial line: set it at the panel or with the analogue input",
                command="S",
                reason="family_not_supported",
                actual=firmware,
            )
        self._check_sign(wanted)
        # Asked first and judged then: what was known may be from before a change at the panel.
        number = await session.prove_setpoint(wanted, unit)
        await self._check_source()
        self._check_range(number)
        if modern:
            state = await self.execute(Commands.SETPOINT, SetpointRequest(number))
        else:
            state = self._from_frame(
                await session.execute_for_reading(
                    Commands.SETPOINT_LEGACY, SetpointLegacyRequest(number)
                )
            )
        state = replace(state, commanded=wanted)
        if not state.accepted:
            await self._explain_refusal(state)
        return state

    async def check_setpoint(self, value: Number, unit: Unit | str | None = None) -> None:
        """Check a setpoint and its unit as :meth:`setpoint` does, and change nothing.

        Raises:
            AlicatError: as for :meth:`setpoint`.
        """
        wanted = as_number(value)
        self._check_sign(wanted)
        self._check_range(await self._session.prove_setpoint(wanted, unit))

    async def zero_setpoint(self) -> None:
        """Set the setpoint to zero, in whatever unit the instrument uses.

        Zero is zero in every unit, so no unit is proven. This also stops an instrument whose unit
        was changed at its panel.

        Raises:
            AlicatCommandRejectedError: the instrument keeps another setpoint.
            AlicatError: as for :meth:`poll`. After a timeout it is unknown whether the setpoint was
                set.
        """
        await self._reach_safe_state(SafeState.ZERO)

    async def setpoint_source(self, mode: str | None = None, *, save: bool | None = None) -> str:
        """Read or choose where the setpoint comes from.

        ``"S"`` and ``"U"`` are the serial line or the panel, and ``"A"`` is the analogue input.
        With ``"U"`` the setpoint is lost at a power cycle.
        """
        result = await self.execute(Commands.SETPOINT_SOURCE, SetpointSourceRequest(mode, save))
        self._source = result.mode
        return result.mode

    async def loop_control_variable(
        self, variable: LoopControlVariable | Statistic | str | int | None = None
    ) -> LoopControlState:
        """Read or choose the quantity that is controlled.

        The data frame's format is read again after a change.
        """
        return await self.execute(
            Commands.LOOP_CONTROL_VARIABLE, LoopControlVariableRequest(variable)
        )

    async def hold_valves(self) -> ValveHoldResult:
        """Keep the valves where they are."""
        return ValveHoldResult(
            await self._session.execute_for_reading(Commands.HOLD_VALVES, HoldValvesRequest())
        )

    async def hold_valves_closed(self, *, confirm: bool = False) -> ValveHoldResult:
        """Close the valves and keep them closed.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
        """
        return ValveHoldResult(
            await self._session.execute_for_reading(
                Commands.HOLD_VALVES_CLOSED, HoldValvesClosedRequest(confirm)
            )
        )

    async def cancel_valve_hold(self) -> ValveHoldResult:
        """Let the valves follow the setpoint again."""
        return ValveHoldResult(
            await self._session.execute_for_reading(
                Commands.CANCEL_VALVE_HOLD, CancelValveHoldRequest()
            )
        )

    async def valve_drive(self) -> ValveDriveState:
        """How far the valves are driven, in percent."""
        return await self.execute(Commands.VALVE_DRIVE, ValveDriveRequest())

    async def ramp_rate(
        self,
        max_ramp: Number | None = None,
        time_unit: TimeUnit | None = None,
        *,
        unit: Unit | str | None = None,
    ) -> RampRateSetting:
        """Read or set the fastest change of the setpoint per ``time_unit`` (0: no limit).

        ``max_ramp`` is in the unit of the setpoint. ``unit`` names that unit, and it is then proven
        as for :meth:`setpoint`.

        Raises:
            AlicatValidationError: a value or its unit is not valid; it was not sent.
            AlicatUnitChangedError: as for :meth:`setpoint`.
            AlicatError: as for :meth:`poll`.
        """
        rate = await self._proven_if_stated(max_ramp, unit, "max_ramp")
        return await self.execute(Commands.RAMP_RATE, RampRateRequest(rate, time_unit))

    async def deadband_limit(
        self,
        deadband: Number | None = None,
        *,
        save: bool | None = None,
        unit: Unit | str | None = None,
    ) -> DeadbandSetting:
        """Read or set the deviation that is not corrected, in the unit of the setpoint.

        ``unit`` is the unit of ``deadband``. It is proven as for :meth:`setpoint`, with the same
        errors.
        """
        band = await self._proven_if_stated(deadband, unit, "deadband")
        return await self.execute(Commands.DEADBAND_LIMIT, DeadbandLimitRequest(band, save))

    async def auto_tare(
        self, enable: bool | None = None, delay_s: float | None = None
    ) -> AutoTareState:
        """Read or set whether the controller tares after its setpoint was zero for ``delay_s``."""
        return await self.execute(Commands.AUTO_TARE, AutoTareRequest(enable, delay_s))

    async def exhaust(self, *, confirm: bool = False) -> ValveHoldResult:
        """Open the exhaust valve of a controller with two valves until the hold is cancelled.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
            AlicatMissingHardwareError: the instrument is not known to have two valves.
        """
        return ValveHoldResult(
            await self._session.execute_for_reading(Commands.EXHAUST, ExhaustRequest(confirm))
        )

    async def ramp_options(
        self,
        *,
        up: bool | None = None,
        down: bool | None = None,
        to_zero: bool | None = None,
        at_power_up: bool | None = None,
    ) -> RampOptions:
        """Read or set which changes of the setpoint the ramp rate limits; all four together."""
        return await self.execute(
            Commands.RAMP_OPTIONS, RampOptionsRequest(up, down, to_zero, at_power_up)
        )

    async def pid(
        self,
        *,
        algorithm: LoopAlgorithm | None = None,
        proportional: int | None = None,
        derivative: int | None = None,
        integral: int | None = None,
        confirm: bool = False,
    ) -> PidSettings:
        """Read the algorithm and the gains of the control loop, or set those that are passed.

        They are kept in registers. A wrong gain makes the flow oscillate.

        Raises:
            AlicatValidationError: values are passed and ``confirm`` is not true; nothing was sent.
        """
        stated = {
            ALGORITHM_REGISTER: algorithm,
            GAIN_REGISTERS["proportional"]: proportional,
            GAIN_REGISTERS["derivative"]: derivative,
            GAIN_REGISTERS["integral"]: integral,
        }
        changes = {register: value for register, value in stated.items() if value is not None}
        if changes:
            self._confirm_gains(confirm)
        held = {
            register: (
                await self.write_register(register, int(changes[register]), confirm=True)
                if register in changes
                else await self.read_register(register)
            )
            for register in stated
        }
        try:
            found = LoopAlgorithm(held[ALGORITHM_REGISTER])
        except ValueError:
            found = LoopAlgorithm.PD_PDF  # 0 stands for it on older firmware
        return PidSettings(self.unit_id, found, *(held[r] for r in GAIN_REGISTERS.values()))

    @renamed(hold_s="hold_duration", interval_s="interval")
    async def settle(
        self,
        target: float | None = None,
        *,
        tolerance: float | None = None,
        hold_duration: float = 1.0,
        timeout: float = 60.0,
        interval: float = 0.1,
    ) -> Reading:
        """Wait until the controlled quantity has reached the setpoint and stays there.

        Polls every ``interval`` seconds. ``target`` is the present setpoint unless stated.
        ``tolerance`` is in the unit of the setpoint (default: a hundredth of the target, at least
        0.02).

        Returns:
            The first of the readings that stayed near the target for ``hold_duration`` seconds.

        Raises:
            AlicatTimeoutError: it has not settled within ``timeout`` seconds. The instrument keeps
                its setpoint.
            AlicatError: as for :meth:`poll`.
        """
        target = (await self.setpoint()).requested if target is None else as_number(target)
        return await wait_until_settled(
            self,
            target,
            tolerance=tolerance,
            hold_duration=hold_duration,
            timeout=timeout,
            interval=interval,
        )

    async def ramp_to(
        self,
        value: Number,
        rate: Number,
        time_unit: TimeUnit,
        *,
        unit: Unit | str | None = None,
        tolerance: float | None = None,
        timeout: float | None = None,
    ) -> Reading:
        """Set the ramp rate and the setpoint; wait until the controlled quantity is at ``value``.

        The ramp rate stays set. ``timeout`` is in seconds; the default is twice the time that the
        ramp takes, plus 30 s. A cancellation leaves the instrument on its ramp.

        Raises:
            AlicatValidationError: the rate is not above 0, or as for :meth:`setpoint`; the setpoint
                was not sent.
            AlicatTimeoutError: it has not arrived in time.
        """
        wanted = as_number(value)
        speed = as_number(rate, "a ramp's rate")
        if not speed > 0:
            raise self._invalid(f"a ramp's rate must be above 0, not {rate!r}")
        self._check_range(await self._session.prove_setpoint(wanted, unit))
        present = (await self.setpoint()).current
        await self.ramp_rate(speed, time_unit, unit=unit)
        await self.setpoint(wanted, unit)
        seconds = abs(wanted - present) / speed * _SECONDS[time_unit]
        return await self.settle(
            wanted, tolerance=tolerance, timeout=2 * seconds + 30 if timeout is None else timeout
        )

    def limit_setpoint(
        self,
        low: Number | None = None,
        high: Number | None = None,
        unit: Unit | str | None = None,
    ) -> None:
        """Refuse setpoints below ``low`` or above ``high`` from now on; ``None`` for no limit.

        The limits are in ``unit``, by default in the unit of setpoints that are passed without one
        (see :meth:`setpoint`), and they hold for the quantity that is controlled now. Setpoints in
        another unit or of another quantity cannot be compared with them and are refused, so a
        limit of 100 SCCM never allows 100 SLPM. Only this object checks the limits; the instrument
        does not know them.

        Raises:
            AlicatValidationError: ``low`` is above ``high``, one is not a finite number, or the
                unit does not exist.
        """
        field, meant = self.data_frame_format.setpoint_field, self._session.meant_label
        self._limits = SetpointLimits(
            None if low is None else as_number(low, "a limit of the setpoint"),
            None if high is None else as_number(high, "a limit of the setpoint"),
            meant if unit is None else stated_label(unit, meant),
            None if field is None else field.statistic,
        )

    # -- leaving

    async def _reach_safe_state(self, state: SafeState) -> None:
        if state is SafeState.HOLD:
            await self.hold_valves()
        elif state is SafeState.ZERO:
            # Zero is zero in every unit, so the unit is not proven here.
            if self.info.firmware.has_modern_setpoint:
                done = await self.execute(Commands.SETPOINT, SetpointRequest(0.0))
            else:
                done = self._from_frame(
                    await self._session.execute_for_reading(
                        Commands.SETPOINT_LEGACY, SetpointLegacyRequest(0.0)
                    )
                )
            if not replace(done, commanded=0.0).accepted:
                raise AlicatCommandRejectedError(
                    f"unit {self.unit_id} was sent setpoint 0 and reports {done.requested:g}: its "
                    "setpoint source may be the analogue input; close its supply by hand",
                    context=ErrorContext(unit_id=self.unit_id, port=self.client.label),
                )

    def _confirm_gains(self, confirm: bool) -> None:
        if not confirm:
            raise self._invalid(
                "the gains were not sent: a wrong gain makes the flow oscillate; repeat it with "
                "confirm=True"
            )

    # -- the setpoint's checks

    async def _check_source(self) -> None:
        """Refuse a setpoint that the instrument is known to ignore.

        Its setpoint source is asked for only where it was the analogue input when last seen.
        """
        if self._source == "A" and await self.setpoint_source() == "A":
            raise self._invalid(
                f"unit {self.unit_id} takes its setpoint from its analogue input and would ignore "
                "this one: choose the serial line with setpoint_source('S')"
            )

    async def _explain_refusal(self, state: SetpointState) -> None:
        """Find out why the instrument reports another setpoint than the one sent, and log it."""
        source = "its setpoint source may be the analogue input"
        if self.info.firmware in Commands.SETPOINT_SOURCE.firmware:
            try:
                source = f"its setpoint source is {await self.setpoint_source()!r}"
            except AlicatError as error:
                source = f"{source} ({error})"
        _log.warning(
            "unit %s on %s was sent setpoint %s and reports %s: %s",
            self.unit_id,
            self.client.label,
            state.commanded,
            state.requested,
            source,
        )

    def _from_frame(self, reading: Reading) -> SetpointState:
        field = self.data_frame_format.setpoint_field
        value = None if field is None else reading.values.get(field.name)
        if field is None or not isinstance(value, float):
            raise AlicatUnsupportedCommandError(
                f"unit {self.unit_id} reports no setpoint: its data frame has the fields "
                f"{', '.join(reading.values)}",
                context=ErrorContext(unit_id=self.unit_id),
            )
        return SetpointState(
            self.unit_id,
            current=value,
            requested=value,
            unit=field.unit,
            unit_label=field.unit_label,
            reading=reading,
            # Frames of the firmware concerned have one or two decimals; one is the coarser.
            resolution=0.1,
        )

    async def _proven_if_stated(
        self, value: Number | None, unit: Unit | str | None, what: str
    ) -> ProvenNumber | float | None:
        """A number with the unit that the caller states; without one, the session proves it."""
        if value is None:
            if unit is not None:
                raise self._invalid(f"unit=... belongs to {what}: state both")
            return None
        number = as_number(value, what)
        if unit is None:
            return number
        return await self._session.prove_setpoint(number, unit)

    def _check_sign(self, value: float) -> None:
        if value < 0 and Capability.BIDIRECTIONAL not in self.info.capabilities:
            raise self._invalid(
                f"setpoint {decimal_text(value)} is negative: open a bidirectional instrument with "
                "assume_capabilities=Capability.BIDIRECTIONAL to allow it"
            )

    def _check_range(self, number: ProvenNumber) -> None:
        self._check_sign(number.value)
        objection = self._limits.objection(number)
        if objection is not None:
            raise self._invalid(f"unit {self.unit_id}: {objection}")
        limit = self._setpoint_limit()
        if limit is not None and abs(number.value) > limit.value:
            raise self._invalid(
                f"setpoint {decimal_text(number)} is beyond unit {self.unit_id}'s full scale of "
                f"{limit.value:g} {limit.unit_label}"
            )

    def _setpoint_limit(self) -> FullScaleValue | None:
        """The full scale of the controlled quantity, if known in the unit of the setpoint."""
        field = self.data_frame_format.setpoint_field
        if field is None or field.statistic is None:
            return None
        if field.maximum is not None:
            return FullScaleValue(
                field.statistic, field.maximum, field.unit, field.unit_label or ""
            )
        controlled = field.statistic.controlled
        if controlled is None:
            return None
        limit = self.info.full_scale.get(controlled)
        if limit is None or limit.unit is None or limit.unit is not field.unit:
            return None
        return limit

    def _invalid(self, message: str) -> AlicatValidationError:
        return AlicatValidationError(
            message, context=ErrorContext(unit_id=self.unit_id, port=self.client.label)
        )


class FlowController(_Controller, FlowMeter):
    """Measures and controls flow."""

    async def totalizer_batch(
        self,
        volume: float | None = None,
        *,
        totalizer: TotalizerId = TotalizerId.FIRST,
        unit_code: Unit | str | int = 0,
    ) -> TotalizerBatch:
        """Read or set the volume that flows until the valve is closed; 0 ends batching.

        ``unit_code`` is the unit of ``volume`` or its code; 0 is the unit that the totalizer has.

        Raises:
            UnknownUnitError: a totalizer counts in no such unit.
        """
        code = unit_number(unit_code, Statistic.TOT_MASS, Statistic.TOT_VOL)
        return await self.execute(
            Commands.TOTALIZER_BATCH, TotalizerBatchRequest(totalizer, volume, code)
        )


class PressureController(_Controller, PressureMeter):
    """Measures and controls pressure."""
