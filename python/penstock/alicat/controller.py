"""Controllers as objects: setpoint, valves, and how the setpoint is followed."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from .commands import (
    AutoTareRequest,
    AutoTareState,
    CancelValveHoldRequest,
    Commands,
    DeadbandLimitRequest,
    DeadbandSetting,
    HoldValvesClosedRequest,
    HoldValvesRequest,
    LoopControlState,
    LoopControlVariableRequest,
    RampRateRequest,
    RampRateSetting,
    SetpointLegacyRequest,
    SetpointRequest,
    SetpointSourceRequest,
    TimeUnit,
    ValveDriveRequest,
    ValveDriveState,
)
from .device import Device, FlowMeter, PressureMeter
from .errors import (
    AlicatFirmwareError,
    AlicatUnitChangedError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ErrorContext,
)
from .firmware import FirmwareFamily
from .kinds import Capability, DeviceKind
from .results import ValveHoldResult
from .setpoints import FullScaleValue, SetpointState, decimal_text

if TYPE_CHECKING:
    from .identity import DeviceInfo
    from .reading import Reading
    from .registry import LoopControlVariable, Statistic, Unit

__all__ = ["FlowController", "PressureController", "device_class_for"]

_log = logging.getLogger("penstock.alicat")


class _Controller(Device):
    """What flow and pressure controllers have in common."""

    async def setpoint(
        self, value: float | None = None, unit: Unit | str | None = None
    ) -> SetpointState:
        """Read the setpoint, or set it to ``value`` and read it back.

        The number is checked before it is sent: finite, not negative unless the instrument is known
        as bidirectional, not beyond its full scale where that is known in the unit of the setpoint.

        The instrument is first asked for the unit that it counts its setpoint in. ``unit`` states
        the unit that ``value`` is meant in; nothing is converted. Without it, ``value`` is meant in
        the unit that was in force when the instrument was opened. If somebody has chosen another
        unit at the panel since, the setpoint is not sent.

        Look at :attr:`SetpointState.accepted` afterwards: a controller whose setpoint source is
        its analogue input ignores what it is told over the wire.

        Raises:
            AlicatValidationError: the value or its unit is not possible; it was not sent.
            AlicatUnitChangedError: the instrument counts in another unit than was meant. The
                message tells whether the setpoint was sent.
            AlicatFirmwareError: GP firmware takes no setpoint over the wire; nothing was sent.
            AlicatError: as for :meth:`poll`. After a timeout it is unknown whether the value
                was set: read it.
        """
        session, firmware = self._session, self.info.firmware
        modern = firmware.has_modern_setpoint
        if value is None:
            if modern:
                return await self.execute(Commands.SETPOINT, SetpointRequest())
            return self._from_frame(await self.poll())
        decimal_text(value)
        if firmware.family is FirmwareFamily.GP:
            raise AlicatFirmwareError(
                f"unit {self.unit_id} has GP firmware, which takes no setpoint over the wire: set "
                "it on the panel or by the analogue input",
                command="S",
                reason="family_not_supported",
                actual=firmware,
            )
        session.check_setpoint_unit(unit)
        self._check_range(value)
        await session.prove_setpoint_unit(unit)
        # Once more: the format, and with it the range, may be another one now.
        self._check_range(value)
        before = self.data_frame_format.setpoint_field
        if modern:
            state = await self.execute(Commands.SETPOINT, SetpointRequest(value))
        else:
            state = self._from_frame(
                await session.execute_for_reading(
                    Commands.SETPOINT_LEGACY, SetpointLegacyRequest(value)
                )
            )
        after = self.data_frame_format.setpoint_field
        if before is not None and after is not None and before.unit_label != after.unit_label:
            raise AlicatUnitChangedError(
                f"unit {self.unit_id} was told setpoint {decimal_text(value)} meant in "
                f"{before.unit_label}, and answered in {after.unit_label}: its unit was changed at "
                "the same moment; correct the setpoint at once",
                expected=before.unit_label,
                actual=after.unit_label,
                context=ErrorContext(unit_id=self.unit_id, port=self.client.label),
            )
        return self._commanded(value, state)

    async def setpoint_source(self, mode: str | None = None, *, save: bool | None = None) -> str:
        """Read or choose where the setpoint comes from: ``"S"`` serial line or panel, ``"A"``
        analogue input, ``"U"`` serial line or panel, not kept over a power cycle."""
        result = await self.execute(Commands.SETPOINT_SOURCE, SetpointSourceRequest(mode, save))
        return result.mode

    async def loop_control_variable(
        self, variable: LoopControlVariable | Statistic | str | int | None = None
    ) -> LoopControlState:
        """Read or choose the quantity that is controlled. The data frame's format is read again
        after a change."""
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
        self, max_ramp: float | None = None, time_unit: TimeUnit | None = None
    ) -> RampRateSetting:
        """Read or set how fast the setpoint may change (0: at once) per ``time_unit``."""
        return await self.execute(Commands.RAMP_RATE, RampRateRequest(max_ramp, time_unit))

    async def deadband_limit(
        self, deadband: float | None = None, *, save: bool | None = None
    ) -> DeadbandSetting:
        """Read or set the deviation that is not corrected."""
        return await self.execute(Commands.DEADBAND_LIMIT, DeadbandLimitRequest(deadband, save))

    async def auto_tare(
        self, enable: bool | None = None, delay_s: float | None = None
    ) -> AutoTareState:
        """Read or set whether the controller tares after its setpoint was zero for ``delay_s``."""
        return await self.execute(Commands.AUTO_TARE, AutoTareRequest(enable, delay_s))

    # -- the setpoint's checks

    def _commanded(self, value: float, state: SetpointState) -> SetpointState:
        state = replace(state, commanded=float(value))
        if not state.accepted:
            _log.warning(
                "unit %s on %s was told setpoint %s and reports %s: is its setpoint source the "
                "analogue input?",
                self.unit_id,
                self.client.label,
                value,
                state.requested,
            )
        return state

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

    def _check_range(self, value: float) -> None:
        text = decimal_text(value)
        if value < 0 and Capability.BIDIRECTIONAL not in self.info.capabilities:
            raise self._invalid(
                f"setpoint {text} is negative: open a bidirectional instrument with "
                "assume_capabilities=Capability.BIDIRECTIONAL to allow it"
            )
        limit = self._setpoint_limit()
        if limit is not None and abs(value) > limit.value:
            raise self._invalid(
                f"setpoint {text} is beyond unit {self.unit_id}'s full scale of "
                f"{limit.value:g} {limit.unit_label}"
            )

    def _setpoint_limit(self) -> FullScaleValue | None:
        """The full scale of what is controlled, if known in the unit of the setpoint."""
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


class PressureController(_Controller, PressureMeter):
    """Measures and controls pressure."""


def device_class_for(info: DeviceInfo) -> type[Device]:
    """The class that has the methods of this kind of instrument."""
    return _CLASSES.get(info.kind, Device)


_CLASSES: dict[DeviceKind, type[Device]] = {
    DeviceKind.FLOW_METER: FlowMeter,
    DeviceKind.FLOW_CONTROLLER: FlowController,
    DeviceKind.PRESSURE_METER: PressureMeter,
    DeviceKind.PRESSURE_CONTROLLER: PressureController,
}
