"""Changes at instruments on behalf of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from penstock.alicat import (
    AlicatError,
    AlicatManager,
    Device,
    FlowController,
    FlowMeter,
    Gas,
    PressureController,
)
from penstock.alicat.modbus import ModbusFlowController, ModbusFlowMeter


class ControlError(Exception):
    """A change that was refused or failed: one sentence for the person at the page."""


class Controls(Protocol):
    """The changes that the page may make. All methods but ``abilities`` raise ControlError.

    After a cancelled call, whether the instrument was changed is unknown.
    """

    def abilities(self, device: str) -> Sequence[str]:
        """The settings of a device that can be changed: ``"setpoint"``, ``"gas"``."""

    async def set_setpoint(self, device: str, value: float) -> str:
        """Set the setpoint and read it back; return a sentence for the person at the page."""

    async def set_gas(self, device: str, gas: str) -> str:
        """Select a gas by its name; return a sentence for the person at the page."""

    async def gases(self, device: str) -> Sequence[str]:
        """The gases to choose from."""


@runtime_checkable
class AlarmControls(Controls, Protocol):
    """:class:`Controls` that also forward the acknowledgement of alarms."""

    async def acknowledge(self, device: str, alarms: Sequence[str]) -> None:
        """Forward that a person has acknowledged the ``alarms`` of a device, by their texts.

        Raises:
            ControlError: that failed; the alarms then stay new on the page.
        """


class AlicatControls:
    """:class:`Controls` of the devices of a manager."""

    def __init__(self, manager: AlicatManager) -> None:
        self._manager = manager

    def abilities(self, device: str) -> Sequence[str]:
        """The settings that can be changed: ``"setpoint"``, ``"gas"``; none until it answers."""
        if device not in self._manager.names:
            return []  # it has not answered yet
        found = self._device(device)
        abilities = []
        if isinstance(found, FlowController | PressureController | ModbusFlowController):
            abilities.append("setpoint")
        if isinstance(found, FlowMeter | ModbusFlowMeter):
            abilities.append("gas")
        return abilities

    async def set_setpoint(self, device: str, value: float) -> str:
        """Set the setpoint, in the instrument's unit, and read it back; return a sentence.

        Raises:
            ControlError: there is no such device, or it is not a controller, did not answer, or
                keeps another setpoint.
        """
        found = self._device(device)
        if not isinstance(found, FlowController | PressureController | ModbusFlowController):
            raise ControlError(f"{device} is a meter and takes no setpoint")
        try:
            state = await found.setpoint(value)
        except (AlicatError, OSError) as error:
            raise ControlError(f"{device}: {_one_line(error)}") from error
        unit = f" {state.unit_label}" if state.unit_label else ""
        if not state.accepted:
            raise ControlError(
                f"{device} ignores the setpoint and keeps {state.requested:g}{unit}: its setpoint "
                "source is probably its analogue input"
            )
        return f"{device} has the setpoint {state.requested:g}{unit}"

    async def set_gas(self, device: str, gas: str) -> str:
        """Select a gas by its name; returns a sentence.

        Raises:
            ControlError: there is no such device, it has no gases, or it refused.
        """
        found = self._device(device)
        if not isinstance(found, FlowMeter | ModbusFlowMeter):
            raise ControlError(f"{device} has no gas to select")
        try:
            state = await found.gas(gas)
        except (AlicatError, OSError) as error:
            raise ControlError(f"{device}: {_one_line(error)}") from error
        return f"the gas of {device} is {state.label}"

    async def gases(self, device: str) -> Sequence[str]:
        """The gases to choose from: the instrument's own list; without one, the usual gases."""
        found = self._device(device)
        if isinstance(found, Device):
            try:
                return tuple((await found.gas_list()).values())
            except (AlicatError, OSError):
                # Older firmware cannot list its gases; it knows the usual ones.
                return tuple(Gas)
        return tuple(Gas)

    def _device(self, name: str) -> Device | ModbusFlowMeter:
        if name not in self._manager.names:
            raise ControlError(f"there is no device {name}")
        try:
            return self._manager.get(name)
        except AlicatError:
            return self._manager.get_modbus(name)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
