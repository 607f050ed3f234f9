"""Simulated instruments that answer on a pty, a TCP port, RFC 2217 or in memory.

    async with open_pty(Bus([MassFlowController("A", full_scale=500.0)])) as path:
        ...  # open ``path`` with any serial program

``python -m penstock.sim`` runs them in a process of its own.
"""

from penstock._public_names import claim as _claim
from penstock.sim._line.bus import Bus, BusTap, SharedLine, Station
from penstock.sim._line.faults import BusFaults, FaultLog, LoggedFault
from penstock.sim._line.framing import (
    Framing,
    LineFraming,
    ModbusRtuFraming,
    ModbusTcpFraming,
    Request,
)
from penstock.sim._line.memory import MemoryStream, open_memory
from penstock.sim._line.network import open_rfc2217, open_tcp
from penstock.sim._line.pty import PtyPort, open_pty
from penstock.sim._line.virtual_clock import VirtualClockLoop
from penstock.sim._personality.ascii_unit import AsciiUnit
from penstock.sim._personality.basis_unit import BasisController, BasisMeter
from penstock.sim._personality.families import (
    CoriolisController,
    CoriolisMeter,
    LiquidController,
    LiquidMeter,
    MassFlowController,
    MassFlowMeter,
    PressureController,
    PressureMeter,
)
from penstock.sim._personality.modbus_unit import ModbusUnit
from penstock.sim._physics.code_tables import GASES, SimulatedGas
from penstock.sim._physics.firmware import (
    FIRMWARE_5V12,
    FIRMWARE_6V21,
    FIRMWARE_7V09,
    FIRMWARE_8V17,
    FIRMWARE_8V30,
    FIRMWARE_9V00,
    FIRMWARE_10V04,
    FIRMWARE_10V20,
    FIRMWARE_CODA,
    FIRMWARE_GP,
    Firmware,
    Provenance,
    Refusal,
)
from penstock.sim._physics.instrument import Instrument, Measurand

__all__ = [
    "FIRMWARE_5V12",
    "FIRMWARE_6V21",
    "FIRMWARE_7V09",
    "FIRMWARE_8V17",
    "FIRMWARE_8V30",
    "FIRMWARE_9V00",
    "FIRMWARE_10V04",
    "FIRMWARE_10V20",
    "FIRMWARE_CODA",
    "FIRMWARE_GP",
    "GASES",
    "AsciiUnit",
    "BasisController",
    "BasisMeter",
    "Bus",
    "BusFaults",
    "BusTap",
    "CoriolisController",
    "CoriolisMeter",
    "FaultLog",
    "Firmware",
    "Framing",
    "Instrument",
    "LineFraming",
    "LiquidController",
    "LiquidMeter",
    "LoggedFault",
    "MassFlowController",
    "MassFlowMeter",
    "Measurand",
    "MemoryStream",
    "ModbusRtuFraming",
    "ModbusTcpFraming",
    "ModbusUnit",
    "PressureController",
    "PressureMeter",
    "Provenance",
    "PtyPort",
    "Refusal",
    "Request",
    "SharedLine",
    "SimulatedGas",
    "Station",
    "VirtualClockLoop",
    "open_memory",
    "open_pty",
    "open_rfc2217",
    "open_tcp",
]

_claim(globals())
