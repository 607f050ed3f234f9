"""Alicat instruments without an event loop: every call blocks and returns its result.

::

    with Alicat.open("/dev/ttyUSB0") as device:
        print(device.poll().values)

A call uses neither a thread nor an event loop: the protocol's coroutines run to their end in the
calling thread, on ports of :mod:`penstock.serial.sync`.
"""

from __future__ import annotations

from penstock.alicat.sync.devices import (
    SyncBasisController,
    SyncBasisMeter,
    SyncCodaController,
    SyncCodaMeter,
    SyncDevice,
    SyncFlowController,
    SyncFlowMeter,
    SyncPressureController,
    SyncPressureMeter,
    SyncStreamingSession,
)
from penstock.alicat.sync.manager import SyncAlicatManager
from penstock.alicat.sync.modbus import (
    SyncModbusFlowController,
    SyncModbusFlowMeter,
    open_modbus_controller,
    open_modbus_device,
)
from penstock.alicat.sync.opening import (
    Alicat,
    find_devices,
    find_modbus_devices,
    list_serial_ports,
    open_controller,
    open_device,
    probe,
)

__all__ = [
    "Alicat",
    "SyncAlicatManager",
    "SyncBasisController",
    "SyncBasisMeter",
    "SyncCodaController",
    "SyncCodaMeter",
    "SyncDevice",
    "SyncFlowController",
    "SyncFlowMeter",
    "SyncModbusFlowController",
    "SyncModbusFlowMeter",
    "SyncPressureController",
    "SyncPressureMeter",
    "SyncStreamingSession",
    "find_devices",
    "find_modbus_devices",
    "list_serial_ports",
    "open_controller",
    "open_device",
    "open_modbus_controller",
    "open_modbus_device",
    "probe",
]
