"""Alicat instruments over Modbus RTU or TCP, instead of the text protocol.

``open_modbus_device`` opens one. It has those methods of the other devices for which the maker's
manual documents registers. :mod:`penstock.alicat.modbus.registers` lists these registers and their
sources.
"""

from __future__ import annotations

from penstock.alicat.modbus.client import ModbusClient
from penstock.alicat.modbus.controller import LoopGains, ModbusFlowController
from penstock.alicat.modbus.device import ModbusFlowMeter, ModbusSource
from penstock.alicat.modbus.opening import (
    ModbusDiscoveryResult,
    ModbusIdentity,
    ModbusOptions,
    ModbusProtocol,
    find_modbus_devices,
    open_modbus_controller,
    open_modbus_device,
)
from penstock.alicat.modbus.protocol import (
    ModbusExceptionCode,
    ModbusExceptionError,
    ReadRegisters,
    RtuFraming,
    TcpFraming,
    WriteRegisters,
)
from penstock.alicat.modbus.registers import (
    CODA_METER_REGISTERS,
    FAMILIES,
    MASS_FLOW_CONTROLLER_REGISTERS,
    MASS_FLOW_METER_REGISTERS,
    RegisterMap,
    basis_registers,
    liquid_registers,
    pressure_registers,
    registers_of_family,
)

__all__ = [
    "CODA_METER_REGISTERS",
    "FAMILIES",
    "MASS_FLOW_CONTROLLER_REGISTERS",
    "MASS_FLOW_METER_REGISTERS",
    "LoopGains",
    "ModbusClient",
    "ModbusDiscoveryResult",
    "ModbusExceptionCode",
    "ModbusExceptionError",
    "ModbusFlowController",
    "ModbusFlowMeter",
    "ModbusIdentity",
    "ModbusOptions",
    "ModbusProtocol",
    "ModbusSource",
    "ReadRegisters",
    "RegisterMap",
    "RtuFraming",
    "TcpFraming",
    "WriteRegisters",
    "basis_registers",
    "find_modbus_devices",
    "liquid_registers",
    "open_modbus_controller",
    "open_modbus_device",
    "pressure_registers",
    "registers_of_family",
]
