"""Instruments over Modbus, without an event loop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Unpack

from penstock.alicat._devices.factory import ReopenedPort, settings_for
from penstock.alicat._instrument.kinds import Capability
from penstock.alicat.modbus.client import ModbusClient
from penstock.alicat.modbus.controller import ModbusFlowController
from penstock.alicat.modbus.device import ModbusFlowMeter
from penstock.alicat.modbus.opening import (
    ModbusOptions,
    ModbusProtocol,
    check_setpoint_register,
    framing_of,
)
from penstock.alicat.modbus.opening import open_modbus_device as open_modbus_device_coroutine
from penstock.alicat.modbus.registers import MASS_FLOW_CONTROLLER_REGISTERS, RegisterMap
from penstock.alicat.registry import Statistic
from penstock.alicat.sync.devices import SyncTwin, blocking, immediate
from penstock.alicat.sync.waiting import BLOCKING, open_blocking_transport, run_without_loop
from penstock.alicat.transport import SerialSettings

__all__ = [
    "SyncModbusFlowController",
    "SyncModbusFlowMeter",
    "open_modbus_controller",
    "open_modbus_device",
    "wrap_modbus_device",
]


class SyncModbusFlowMeter(SyncTwin[ModbusFlowMeter]):
    """The blocking twin of :class:`penstock.alicat.modbus.ModbusFlowMeter`.

    Threads, timeouts and Ctrl-C are as :class:`SyncTwin` says.
    """

    @property
    def client(self) -> ModbusClient:
        """The client of its line or server, for further devices on it."""
        return self._device.client

    @property
    def registers(self) -> RegisterMap:
        """The register map, with its source."""
        return self._device.registers

    @property
    def serial(self) -> str | None:
        """The serial number; ``None`` if no register holds it."""
        return self._device.serial

    facts: Final = immediate(ModbusFlowMeter.facts)
    poll: Final = blocking(ModbusFlowMeter.poll)
    gas: Final = blocking(ModbusFlowMeter.gas)
    create_mix: Final = blocking(ModbusFlowMeter.create_mix)
    delete_mix: Final = blocking(ModbusFlowMeter.delete_mix)
    tare_flow: Final = blocking(ModbusFlowMeter.tare_flow)
    tare_gauge_pressure: Final = blocking(ModbusFlowMeter.tare_gauge_pressure)
    tare_absolute_pressure: Final = blocking(ModbusFlowMeter.tare_absolute_pressure)
    totalizer_reset: Final = blocking(ModbusFlowMeter.totalizer_reset)
    lock_display: Final = blocking(ModbusFlowMeter.lock_display)
    unlock_display: Final = blocking(ModbusFlowMeter.unlock_display)
    identify: Final = blocking(ModbusFlowMeter.identify)
    change_number: Final = blocking(ModbusFlowMeter.change_number)
    close: Final = blocking(ModbusFlowMeter.close)


class SyncModbusFlowController(SyncModbusFlowMeter):
    """The blocking twin of :class:`penstock.alicat.modbus.ModbusFlowController`."""

    setpoint: Final = blocking(ModbusFlowController.setpoint)
    loop_gains: Final = blocking(ModbusFlowController.loop_gains)
    loop_control_variable: Final = blocking(ModbusFlowController.loop_control_variable)
    save_power_up_setpoint: Final = blocking(ModbusFlowController.save_power_up_setpoint)
    hold_valves: Final = blocking(ModbusFlowController.hold_valves)
    hold_valves_closed: Final = blocking(ModbusFlowController.hold_valves_closed)
    cancel_valve_hold: Final = blocking(ModbusFlowController.cancel_valve_hold)
    exhaust: Final = blocking(ModbusFlowController.exhaust)
    limit_setpoint: Final = immediate(ModbusFlowController.limit_setpoint)


def open_modbus_device(
    port: str | os.PathLike[str] | ModbusClient,
    *,
    unit: int = 1,
    protocol: ModbusProtocol | str = ModbusProtocol.RTU,
    serial: SerialSettings | None = None,
    timeout: float = 0.5,
    registers: RegisterMap = MASS_FLOW_CONTROLLER_REGISTERS,
    units: Mapping[Statistic | str, str] | None = None,
    assume_capabilities: Capability = Capability.NONE,
    assume_same_instrument: bool = False,
) -> SyncModbusFlowMeter:
    """Open one instrument; as :func:`penstock.alicat.modbus.open_modbus_device`, without a loop.

    ``port`` is the path of a port or the address of a server, which the device then owns, or the
    client of a device that shares its line.
    """

    async def opened() -> ModbusFlowMeter:
        client, owned = port, False
        if not isinstance(client, ModbusClient):
            framing = framing_of(protocol)
            settings = settings_for(client, serial)
            if settings is None:
                raise TypeError(f"{client!r} is neither the path nor the client of a port")
            reopened = ReopenedPort(settings, open_blocking_transport)
            client = ModbusClient(
                await reopened.open(),
                framing,
                timeout=timeout,
                reconnect=reopened.open,
                waiting=BLOCKING,
            )
            owned = True
        try:
            device = await open_modbus_device_coroutine(
                client,
                unit=unit,
                registers=registers,
                units=units,
                assume_capabilities=assume_capabilities,
                assume_same_instrument=assume_same_instrument,
            )
        except BaseException:
            if owned:
                await client.aclose()
            raise
        device.owns_client = owned
        return device

    return wrap_modbus_device(run_without_loop(opened()))


def open_modbus_controller(
    port: str | os.PathLike[str] | ModbusClient, **options: Unpack[ModbusOptions]
) -> SyncModbusFlowController:
    """As :func:`penstock.alicat.modbus.open_modbus_controller`, without a loop."""
    check_setpoint_register(options)
    device = open_modbus_device(port, **options)
    assert isinstance(device, SyncModbusFlowController)
    return device


def wrap_modbus_device(device: ModbusFlowMeter) -> SyncModbusFlowMeter:
    """The blocking twin of a device whose client waits without an event loop."""
    if isinstance(device, ModbusFlowController):
        return SyncModbusFlowController(device)
    return SyncModbusFlowMeter(device)
