"""Alicat flow and pressure instruments over a serial line.

``open_device`` opens one instrument, :class:`AlicatManager` many. Everything is asynchronous and
runs on any loop that AnyIO runs on. The names are those of alicatlib 0.3.
"""

from __future__ import annotations

from .client import AlicatProtocolClient, BusStatistics
from .data_frame import DataFrameField, DataFrameFormat, DataFrameFormatFlavor
from .device import Device, FlowController, FlowMeter, PressureController, PressureMeter
from .errors import (
    AlicatCapabilityError,
    AlicatCommandRejectedError,
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatDiscoveryError,
    AlicatError,
    AlicatFirmwareError,
    AlicatMediumMismatchError,
    AlicatMissingHardwareError,
    AlicatParseError,
    AlicatProtocolError,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    AlicatTransportError,
    AlicatUnitIdMismatchError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ErrorContext,
    InvalidUnitIdError,
    UnknownFluidError,
    UnknownGasError,
    UnknownStatisticError,
    UnknownUnitError,
)
from .factory import open_device
from .firmware import FirmwareFamily, FirmwareVersion
from .identity import DeviceInfo, ManufacturingInfo
from .kinds import Capability, DeviceKind, Medium
from .manager import AlicatManager
from .reading import FieldSchema, Reading
from .registry import Gas, Statistic, Unit
from .result import DeviceResult, ErrorPolicy
from .setpoints import FullScaleValue, SetpointState
from .status import StatusCode
from .transport import ByteStreamTransport, SerialSettings, Transport

__all__ = [
    "AlicatCapabilityError",
    "AlicatCommandRejectedError",
    "AlicatConfigurationError",
    "AlicatConnectionError",
    "AlicatDiscoveryError",
    "AlicatError",
    "AlicatFirmwareError",
    "AlicatManager",
    "AlicatMediumMismatchError",
    "AlicatMissingHardwareError",
    "AlicatParseError",
    "AlicatProtocolClient",
    "AlicatProtocolError",
    "AlicatStreamingModeError",
    "AlicatTimeoutError",
    "AlicatTransportError",
    "AlicatUnitIdMismatchError",
    "AlicatUnsupportedCommandError",
    "AlicatValidationError",
    "BusStatistics",
    "ByteStreamTransport",
    "Capability",
    "DataFrameField",
    "DataFrameFormat",
    "DataFrameFormatFlavor",
    "Device",
    "DeviceInfo",
    "DeviceKind",
    "DeviceResult",
    "ErrorContext",
    "ErrorPolicy",
    "FieldSchema",
    "FirmwareFamily",
    "FirmwareVersion",
    "FlowController",
    "FlowMeter",
    "FullScaleValue",
    "Gas",
    "InvalidUnitIdError",
    "ManufacturingInfo",
    "Medium",
    "PressureController",
    "PressureMeter",
    "Reading",
    "SerialSettings",
    "SetpointState",
    "Statistic",
    "StatusCode",
    "Transport",
    "Unit",
    "UnknownFluidError",
    "UnknownGasError",
    "UnknownStatisticError",
    "UnknownUnitError",
    "open_device",
]
