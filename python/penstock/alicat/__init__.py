"""Alicat flow and pressure instruments over a serial line.

``open_device`` opens one instrument, :class:`AlicatManager` many. Everything is asynchronous and
runs on any loop that AnyIO runs on. The names are those of alicatlib 0.3.
"""

from __future__ import annotations

from penstock._public_names import claim as _claim
from penstock.alicat._bus.client import AlicatProtocolClient, BusStatistics
from penstock.alicat._devices.basis_and_coda import (
    BasisController,
    BasisMeter,
    CodaController,
    CodaMeter,
)
from penstock.alicat._devices.controller import FlowController, PressureController
from penstock.alicat._devices.device import Device, FlowMeter, PressureMeter
from penstock.alicat._devices.discovery import (
    DiscoveryResult,
    find_devices,
    list_serial_ports,
    probe,
)
from penstock.alicat._devices.factory import DeviceOptions, open_controller, open_device
from penstock.alicat._instrument.data_frame import (
    DataFrameField,
    DataFrameFormat,
    DataFrameFormatFlavor,
)
from penstock.alicat._instrument.events import DeviceEvent, EventKind, EventStream
from penstock.alicat._instrument.identity import CapabilityEvidence, DeviceInfo, ManufacturingInfo
from penstock.alicat._instrument.kinds import (
    Capability,
    DeviceKind,
    FirmwareFamily,
    FirmwareVersion,
    Medium,
)
from penstock.alicat._instrument.reading import FieldSchema, Reading, StatusCode
from penstock.alicat._instrument.results import (
    AlicatDeviceSnapshot,
    DeviceResult,
    ErrorPolicy,
    LoopAlgorithm,
    MeasurementSet,
    PidSettings,
    SafeState,
    TareResult,
    ValveHoldResult,
)
from penstock.alicat._instrument.setpoints import FullScaleValue, SetpointState
from penstock.alicat._manager import AlicatManager
from penstock.alicat._session.session import Session, SessionState
from penstock.alicat._session.streaming import StreamingSession
from penstock.alicat.commands import (
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
from penstock.alicat.config import AlicatConfig, config_from_env
from penstock.alicat.errors import (
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
from penstock.alicat.registry import Gas, LoopControlVariable, Statistic, Unit
from penstock.alicat.transport import ByteStreamTransport, SerialSettings, Transport
from penstock.overflow import OverflowPolicy

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
    "BasisController",
    "BasisMeter",
    "BusStatistics",
    "ByteStreamTransport",
    "Capability",
    "CapabilityEvidence",
    "CodaController",
    "CodaMeter",
    "Command",
    "Commands",
    "DataFrameField",
    "DataFrameFormat",
    "DataFrameFormatFlavor",
    "Device",
    "DeviceEvent",
    "DeviceInfo",
    "DeviceKind",
    "DeviceOptions",
    "DeviceResult",
    "DiscoveryResult",
    "ErrorContext",
    "ErrorPolicy",
    "EventKind",
    "EventStream",
    "FieldSchema",
    "FirmwareFamily",
    "FirmwareVersion",
    "FlowController",
    "FlowMeter",
    "FullScaleValue",
    "Gas",
    "GasState",
    "InvalidUnitIdError",
    "LoopAlgorithm",
    "LoopControlVariable",
    "ManufacturingInfo",
    "MeasurementSet",
    "Medium",
    "OverflowPolicy",
    "PidSettings",
    "PressureController",
    "PressureMeter",
    "Reading",
    "SafeState",
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
    "open_controller",
    "open_device",
    "probe",
]

_claim(globals())
