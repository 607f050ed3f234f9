"""The commands of the protocol, one object each; :class:`Commands` holds them all."""

from __future__ import annotations

from .catalog import Commands
from .command import (
    Command,
    CommandContext,
    CommandSpec,
    FirmwareRange,
    ReplyIdentity,
    ReportedUnit,
    TableCommand,
)
from .conditions import (
    AverageTimingRequest,
    AverageTimingSetting,
    StpNtpMode,
    StpNtpPressureRequest,
    StpNtpPressureSetting,
    StpNtpTemperatureRequest,
    StpNtpTemperatureSetting,
    ZeroBandRequest,
    ZeroBandSetting,
)
from .control import (
    DeadbandLimitRequest,
    DeadbandSetting,
    LoopControlState,
    LoopControlVariableRequest,
    RampRateRequest,
    RampRateSetting,
    TimeUnit,
)
from .display import (
    BlinkDisplayRequest,
    BlinkDisplayState,
    LockDisplayRequest,
    UnlockDisplayRequest,
)
from .gas import GasListRequest, GasSelectLegacyRequest, GasSelectRequest, GasState
from .output import AnalogOutputChannel, AnalogOutputSourceRequest, AnalogOutputSourceSetting
from .polling import PollRequest, RequestDataRequest
from .setpoint import (
    SetpointLegacyRequest,
    SetpointRequest,
    SetpointSourceRequest,
    SetpointSourceResult,
)
from .streaming import StreamingRateRequest, StreamingRateResult
from .system import DataFrameFormatRequest, ManufacturingInfoRequest, VeRequest, VeResult
from .tare import (
    AutoTareRequest,
    AutoTareState,
    PowerUpTareRequest,
    PowerUpTareState,
    TareAbsolutePressureRequest,
    TareFlowRequest,
    TareGaugePressureRequest,
)
from .totalizer import (
    TotalizerConfig,
    TotalizerConfigRequest,
    TotalizerId,
    TotalizerLimitMode,
    TotalizerMode,
    TotalizerResetPeakRequest,
    TotalizerResetRequest,
    TotalizerSaveRequest,
    TotalizerSaveState,
)
from .units import EngineeringUnitsRequest, FullScaleQueryRequest, UnitSetting
from .user_data import UserDataRequest, UserDataSetting
from .valve import (
    CancelValveHoldRequest,
    HoldValvesClosedRequest,
    HoldValvesRequest,
    ValveDriveRequest,
    ValveDriveState,
)

__all__ = [
    "AnalogOutputChannel",
    "AnalogOutputSourceRequest",
    "AnalogOutputSourceSetting",
    "AutoTareRequest",
    "AutoTareState",
    "AverageTimingRequest",
    "AverageTimingSetting",
    "BlinkDisplayRequest",
    "BlinkDisplayState",
    "CancelValveHoldRequest",
    "Command",
    "CommandContext",
    "CommandSpec",
    "Commands",
    "DataFrameFormatRequest",
    "DeadbandLimitRequest",
    "DeadbandSetting",
    "EngineeringUnitsRequest",
    "FirmwareRange",
    "FullScaleQueryRequest",
    "GasListRequest",
    "GasSelectLegacyRequest",
    "GasSelectRequest",
    "GasState",
    "HoldValvesClosedRequest",
    "HoldValvesRequest",
    "LockDisplayRequest",
    "LoopControlState",
    "LoopControlVariableRequest",
    "ManufacturingInfoRequest",
    "PollRequest",
    "PowerUpTareRequest",
    "PowerUpTareState",
    "RampRateRequest",
    "RampRateSetting",
    "ReplyIdentity",
    "ReportedUnit",
    "RequestDataRequest",
    "SetpointLegacyRequest",
    "SetpointRequest",
    "SetpointSourceRequest",
    "SetpointSourceResult",
    "StpNtpMode",
    "StpNtpPressureRequest",
    "StpNtpPressureSetting",
    "StpNtpTemperatureRequest",
    "StpNtpTemperatureSetting",
    "StreamingRateRequest",
    "StreamingRateResult",
    "TableCommand",
    "TareAbsolutePressureRequest",
    "TareFlowRequest",
    "TareGaugePressureRequest",
    "TimeUnit",
    "TotalizerConfig",
    "TotalizerConfigRequest",
    "TotalizerId",
    "TotalizerLimitMode",
    "TotalizerMode",
    "TotalizerResetPeakRequest",
    "TotalizerResetRequest",
    "TotalizerSaveRequest",
    "TotalizerSaveState",
    "UnitSetting",
    "UnlockDisplayRequest",
    "UserDataRequest",
    "UserDataSetting",
    "ValveDriveRequest",
    "ValveDriveState",
    "VeRequest",
    "VeResult",
    "ZeroBandRequest",
    "ZeroBandSetting",
]
