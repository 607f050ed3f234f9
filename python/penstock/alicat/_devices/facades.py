"""The choice of a device class by the kind of instrument."""

from __future__ import annotations

from penstock.alicat._devices.basis_device import BasisController, BasisMeter
from penstock.alicat._devices.coda_device import CodaController, CodaMeter
from penstock.alicat._devices.controller import FlowController, PressureController
from penstock.alicat._devices.device import Device, FlowMeter, PressureMeter
from penstock.alicat._instrument.firmware import FirmwareFamily
from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat._instrument.kinds import DeviceKind
from penstock.alicat._instrument.model_codes import is_coriolis_model

__all__ = ["device_class_for"]

_CLASSES: dict[DeviceKind, type[Device]] = {
    DeviceKind.FLOW_METER: FlowMeter,
    DeviceKind.FLOW_CONTROLLER: FlowController,
    DeviceKind.PRESSURE_METER: PressureMeter,
    DeviceKind.PRESSURE_CONTROLLER: PressureController,
}


def device_class_for(info: DeviceInfo) -> type[Device]:
    """The class that has the methods of this kind of instrument."""
    if info.firmware.family is FirmwareFamily.BASIS:
        return BasisController if info.kind.is_controller else BasisMeter
    if is_coriolis_model(info.model):
        return CodaController if info.kind.is_controller else CodaMeter
    return _CLASSES.get(info.kind, Device)
