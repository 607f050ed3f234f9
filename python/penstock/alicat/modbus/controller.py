"""Controllers over Modbus."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from penstock.alicat._instrument.kinds import Capability
from penstock.alicat._instrument.results import ValveHoldResult
from penstock.alicat._instrument.setpoints import (
    Number,
    ProvenNumber,
    SetpointLimits,
    SetpointState,
    as_number,
    decimal_text,
)
from penstock.alicat.errors import (
    AlicatMissingHardwareError,
    AlicatValidationError,
    ErrorContext,
)
from penstock.alicat.modbus.device import ModbusFlowMeter
from penstock.alicat.modbus.registers import RESULTS, SpecialCommand, as_float, from_float
from penstock.alicat.registry import LoopControlVariable, Statistic, Unit
from penstock.alicat.registry.units import are_same_unit, stated_label

__all__ = ["LoopGains", "ModbusFlowController"]

_FOLLOW, _HOLD_CLOSED, _HOLD, _EXHAUST = 0, 1, 2, 3
#: The arguments of the special command.
_VARIABLES: Final = MappingProxyType(
    {
        LoopControlVariable.MASS_FLOW_SETPT: 0,
        LoopControlVariable.VOL_FLOW_SETPT: 1,
        LoopControlVariable.DIFF_PRESS_SETPT: 2,
        LoopControlVariable.ABS_PRESS_SETPT: 3,
        LoopControlVariable.GAUGE_PRESS_SETPT: 4,
    }
)
_HIGHEST_GAIN = 65535


@dataclass(frozen=True, slots=True)
class LoopGains:
    """The gains of a controller's loop."""

    p: int
    i: int
    d: int


class ModbusFlowController(ModbusFlowMeter):
    """A flow controller over Modbus."""

    _limits = SetpointLimits(None, None, None, None)
    _chosen: LoopControlVariable | None = None

    def limit_setpoint(
        self,
        low: Number | None = None,
        high: Number | None = None,
        unit: Unit | str | None = None,
    ) -> None:
        """Refuse setpoints below ``low`` or above ``high`` from now on; ``None`` for no limit.

        The limits are in ``unit``, by default in the unit that was stated for the setpoint when the
        instrument was opened. They hold for the quantity that is controlled now: after another one
        was chosen, setpoints are refused until limits are set again. No register holds the full
        scale, so without limits only the instrument rejects a setpoint that is too large.

        Raises:
            AlicatValidationError: ``low`` is above ``high``, one is not a finite number, or the
                unit does not exist.
        """
        own = self._setpoint_label()
        self._limits = SetpointLimits(
            None if low is None else as_number(low, "a limit of the setpoint"),
            None if high is None else as_number(high, "a limit of the setpoint"),
            own if unit is None else stated_label(unit, own),
            self._controlled(),
        )

    async def setpoint(
        self, value: Number | None = None, unit: Unit | str | None = None
    ) -> SetpointState:
        """Read the setpoint, or set it to ``value`` and read it back.

        ``unit`` is the unit of ``value``. It must be the unit that was stated for the setpoint when
        the instrument was opened. Nothing is converted, and the instrument cannot report its unit.

        Test :attr:`SetpointState.accepted` afterwards: a controller whose setpoint source is its
        analogue input ignores setpoints from the line.

        Raises:
            AlicatValidationError: the value or its unit is not valid; it was not sent.
            AlicatError: as for :meth:`ModbusClient.execute`. After a timeout it is unknown whether
                the value was set: read it.
        """
        registers = self._registers
        at = registers.setpoint
        if at is None:
            raise AlicatValidationError("the map of this instrument has no register for a setpoint")
        label = self._setpoint_label()
        commanded = None if value is None else as_number(value)
        if commanded is not None:
            await self._write(at, self._checked(commanded, unit, label))
        requested = as_float(await self._read(at, 2))
        current = requested
        followed = registers.quantities.get(registers.setpoint_statistic)
        if followed is not None:
            current = as_float(await self._read(followed, 2))
        return SetpointState(
            unit_id=self.unit_id,
            current=current,
            requested=requested,
            unit=None if label is None else Unit.from_label(label),
            unit_label=label,
            commanded=commanded,
        )

    async def loop_gains(
        self, p: int | None = None, i: int | None = None, d: int | None = None
    ) -> LoopGains:
        """Read the gains of the control loop, after setting those that are given (0 to 65535).

        The results of failures, 32769 to 32774, are also possible gains: a gain with such a value
        is taken for a failure.

        Raises:
            AlicatValidationError: a gain is not possible; nothing was sent.
        """
        given = {
            SpecialCommand.SET_P: p,
            SpecialCommand.SET_I: i,
            SpecialCommand.SET_D: d,
        }
        for gain in given.values():
            if gain is not None and not 0 <= gain <= _HIGHEST_GAIN:
                raise AlicatValidationError(f"a gain is 0 to {_HIGHEST_GAIN}, not {gain!r}")
        for command, gain in given.items():
            if gain is not None:
                await self._command(command, gain)
        return LoopGains(p=await self._gain(0), d=await self._gain(1), i=await self._gain(2))

    async def _gain(self, which: int) -> int:
        command = SpecialCommand.READ_GAIN
        self._require_command(command)
        register = self._command_register()
        await self._write(register, (command.value, which))
        executed, value = await self._read(register, 2)
        if executed != command.value or (value in RESULTS and value != 0):
            raise self._failure(command, which, executed, value)
        return value

    async def loop_control_variable(
        self, variable: LoopControlVariable | Statistic | str | int
    ) -> LoopControlVariable:
        """Control another quantity. The unit of the setpoint changes with it: reopen the device.

        Until then the unit of the setpoint is unknown: setpoints with ``unit=...`` are refused.

        Raises:
            AlicatValidationError: the manual has no number for this quantity; nothing was sent.
        """
        chosen = LoopControlVariable.coerce(variable)
        if chosen not in _VARIABLES:
            raise AlicatValidationError(f"Modbus has no number for {chosen.name}; nothing was sent")
        await self._command(SpecialCommand.CONTROL_VARIABLE, _VARIABLES[chosen])
        self._chosen = chosen
        return chosen

    async def save_power_up_setpoint(self, *, confirm: bool = False) -> None:
        """Keep the present setpoint for the next power-up. Writes the instrument's memory.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
        """
        self._require(confirm, "it will start with the present setpoint after a loss of power")
        await self._command(SpecialCommand.SAVE_SETPOINT, 0)

    async def hold_valves(self) -> ValveHoldResult:
        """Keep the valves where they are."""
        return await self._set_valves(_HOLD)

    async def hold_valves_closed(self, *, confirm: bool = False) -> ValveHoldResult:
        """Close the valves and keep them closed.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
        """
        self._require(confirm, "the valves close")
        return await self._set_valves(_HOLD_CLOSED)

    async def cancel_valve_hold(self) -> ValveHoldResult:
        """Let the valves follow the setpoint again."""
        return await self._set_valves(_FOLLOW)

    async def exhaust(self, *, confirm: bool = False) -> ValveHoldResult:
        """Open the exhaust valve of a controller with two valves until the hold is cancelled.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
            AlicatMissingHardwareError: it is not known to have two valves; nothing was sent.
        """
        if Capability.MULTI_VALVE not in self._capabilities:
            raise AlicatMissingHardwareError(
                f"unit {self._unit} is not known to have two valves: if it has, open it with "
                "assume_capabilities=Capability.MULTI_VALVE",
                context=ErrorContext(unit_id=self.unit_id, port=self._client.label),
            )
        self._require(confirm, "the exhaust valve opens")
        return await self._set_valves(_EXHAUST)

    async def _set_valves(self, argument: int) -> ValveHoldResult:
        await self._command(SpecialCommand.VALVE, argument)
        return ValveHoldResult(await self.poll())

    def _setpoint_label(self) -> str | None:
        """The unit that was stated for the setpoint, unless another quantity was chosen since."""
        return None if self._chosen else self._labels.get(self._registers.setpoint_statistic)

    def _controlled(self) -> Statistic:
        chosen = self._chosen
        return self._registers.setpoint_statistic if chosen is None else chosen.statistic

    def _checked(self, value: float, unit: Unit | str | None, label: str | None) -> tuple[int, int]:
        """The registers of a setpoint that may be sent."""
        why = None
        if unit is not None:
            wanted = stated_label(unit, label)
            if label is None:
                why = "no unit was stated for its setpoint when it was opened"
                if self._chosen is not None:
                    why = f"it controls {self._chosen.name} now: reopen it and state units=..."
            elif not are_same_unit(wanted, label):
                why = f"it takes its setpoint in {label}, not in {wanted}"
        if why is None and value < 0 and Capability.BIDIRECTIONAL not in self._capabilities:
            why = "a negative setpoint needs an instrument that is known to be bidirectional"
        if why is None:
            # Nothing proves the unit here: no register holds it.
            why = self._limits.objection(ProvenNumber(value, label, self._controlled(), 0))
        if why is not None:
            raise AlicatValidationError(
                f"setpoint {decimal_text(value)} was not sent to unit {self._unit}: {why}",
                context=ErrorContext(unit_id=self.unit_id, port=self._client.label),
            )
        return from_float(value)
