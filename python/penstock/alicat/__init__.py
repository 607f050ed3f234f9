"""Alicat flow and pressure instruments over a serial line.

``open_device`` opens one instrument, :class:`AlicatManager` many. Everything is asynchronous and
runs on any loop that AnyIO runs on. The names are those of alicatlib 0.3.
"""

from __future__ import annotations

from penstock.overflow import OverflowPolicy

from .client import AlicatProtocolClient, BusStatistics
from .commands import (
    AnalogOutputChannel,
    Command,
    Commands,
    GasState,
    StpNtpMode,
    TimeUnit,
    TotalizerId,
    TotalizerLimitMode,
    TotalizerMode,
)
from .config import AlicatConfig, config_from_env
from .controller import FlowController, PressureController
from .data_frame import DataFrameField, DataFrameFormat, DataFrameFormatFlavor
from .device import Device, FlowMeter, PressureMeter
from .discovery import DiscoveryResult, find_devices, list_serial_ports, probe
from .errors import (
    AlicatCapabilityError,
    AlicatCommandRejectedError,
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatDiscoveryError,
    AlicatError,
    AlicatFirmwareError,
    AlicatIdentityError,
    AlicatMediumMismatchError,
    AlicatMissingHardwareError,
    AlicatParseError,
    AlicatProtocolError,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    AlicatTransportError,
    AlicatUnitChangedError,
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
from .events import DeviceEvent, EventKind
from .factory import open_device
from .firmware import FirmwareFamily, FirmwareVersion
from .identity import DeviceInfo, ManufacturingInfo
from .kinds import Capability, DeviceKind, Medium
from .manager import AlicatManager
from .reading import FieldSchema, Reading
from .registry import Gas, LoopControlVariable, Statistic, Unit
from .result import DeviceResult, ErrorPolicy
from .results import AlicatDeviceSnapshot, MeasurementSet, TareResult, ValveHoldResult
from .session import Session, SessionState
from .setpoints import FullScaleValue, SetpointState
from .status import StatusCode
from .streaming import StreamingSession
from .transport import ByteStreamTransport, SerialSettings, Transport

__all__ = [
    "AlicatCapabilityError",
    "AlicatCommandRejectedError",
    "AlicatConfig",
    "AlicatConfigurationError",
    "AlicatConnectionError",
    "AlicatDeviceSnapshot",
    "AlicatDiscoveryError",
    "AlicatError",
    "AlicatFirmwareError",
    "AlicatIdentityError",
    "AlicatManager",
    "AlicatMediumMismatchError",
    "AlicatMissingHardwareError",
    "AlicatParseError",
    "AlicatProtocolClient",
    "AlicatProtocolError",
    "AlicatStreamingModeError",
    "AlicatTimeoutError",
    "AlicatTransportError",
    "AlicatUnitChangedError",
    "AlicatUnitIdMismatchError",
    "AlicatUnsupportedCommandError",
    "AlicatValidationError",
    "AnalogOutputChannel",
    "BusStatistics",
    "ByteStreamTransport",
    "Capability",
    "Command",
    "Commands",
    "DataFrameField",
    "DataFrameFormat",
    "DataFrameFormatFlavor",
    "Device",
    "DeviceEvent",
    "DeviceInfo",
    "DeviceKind",
    "DeviceResult",
    "DiscoveryResult",
    "ErrorContext",
    "ErrorPolicy",
    "EventKind",
    "FieldSchema",
    "FirmwareFamily",
    "FirmwareVersion",
    "FlowController",
    "FlowMeter",
    "FullScaleValue",
    "Gas",
    "GasState",
    "InvalidUnitIdError",
    "LoopControlVariable",
    "ManufacturingInfo",
    "MeasurementSet",
    "Medium",
    "OverflowPolicy",
    "PressureController",
    "PressureMeter",
    "Reading",
    "SerialSettings",
    "Session",
    "SessionState",
    "SetpointState",
    "Statistic",
    "StatusCode",
    "StpNtpMode",
    "StreamingSession",
    "TareResult",
    "TimeUnit",
    "TotalizerId",
    "TotalizerLimitMode",
    "TotalizerMode",
    "Transport",
    "Unit",
    "UnknownFluidError",
    "UnknownGasError",
    "UnknownStatisticError",
    "UnknownUnitError",
    "ValveHoldResult",
    "config_from_env",
    "find_devices",
    "list_serial_ports",
    "open_device",
    "probe",
]
