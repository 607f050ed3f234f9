"""The commands of the protocol, one object for each; :class:`Commands` holds them all."""

from __future__ import annotations

from penstock.alicat.commands.basis import (
    BasisAutoTareRequest,
    BasisBatch,
    BasisBatchRequest,
    BasisGains,
    BasisGainsRequest,
    BasisGasRequest,
    BasisHoldValveRequest,
    BasisResetTotalRequest,
    BasisTareRequest,
)
from penstock.alicat.commands.batch import (
    TotalizerBatch,
    TotalizerBatchRequest,
)
from penstock.alicat.commands.baud_rate import BaudRateRequest
from penstock.alicat.commands.catalog import Commands
from penstock.alicat.commands.command import (
    Command,
    CommandContext,
    CommandSpec,
    FirmwareRange,
    ReplyIdentity,
    ReportedUnit,
    TableCommand,
)
from penstock.alicat.commands.conditions import (
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
from penstock.alicat.commands.control import (
    DeadbandLimitRequest,
    DeadbandSetting,
    LoopControlState,
    LoopControlVariableRequest,
    RampOptions,
    RampOptionsRequest,
    RampRateRequest,
    RampRateSetting,
    TimeUnit,
)
from penstock.alicat.commands.display import (
    BlinkDisplayRequest,
    BlinkDisplayState,
    LockDisplayRequest,
    UnlockDisplayRequest,
)
from penstock.alicat.commands.gas import (
    GasListRequest,
    GasSelectLegacyRequest,
    GasSelectRequest,
    GasState,
)
from penstock.alicat.commands.mixes import (
    CreateMixRequest,
    DeleteMixRequest,
    GasMix,
)
from penstock.alicat.commands.output import (
    AnalogOutputChannel,
    AnalogOutputSourceRequest,
    AnalogOutputSourceSetting,
)
from penstock.alicat.commands.polling import PollRequest, RequestDataRequest
from penstock.alicat.commands.registers import (
    ReadRegisterRequest,
    RegisterValue,
    WriteRegisterRequest,
)
from penstock.alicat.commands.setpoint import (
    SetpointLegacyRequest,
    SetpointRequest,
    SetpointSourceRequest,
    SetpointSourceResult,
)
from penstock.alicat.commands.streaming import StreamingRateRequest, StreamingRateResult
from penstock.alicat.commands.system import (
    DataFrameFormatRequest,
    ManufacturingInfoRequest,
    VeRequest,
    VeResult,
)
from penstock.alicat.commands.tare import (
    AutoTareRequest,
    AutoTareState,
    PowerUpTareRequest,
    PowerUpTareState,
    TareAbsolutePressureRequest,
    TareFlowRequest,
    TareGaugePressureRequest,
)
from penstock.alicat.commands.totalizer import (
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
from penstock.alicat.commands.units import (
    EngineeringUnitsRequest,
    FullScaleQueryRequest,
    UnitSetting,
)
from penstock.alicat.commands.user_data import UserDataRequest, UserDataSetting
from penstock.alicat.commands.valve import (
    CancelValveHoldRequest,
    ExhaustRequest,
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
    "BasisAutoTareRequest",
    "BasisBatch",
    "BasisBatchRequest",
    "BasisGains",
    "BasisGainsRequest",
    "BasisGasRequest",
    "BasisHoldValveRequest",
    "BasisResetTotalRequest",
    "BasisTareRequest",
    "BaudRateRequest",
    "BlinkDisplayRequest",
    "BlinkDisplayState",
    "CancelValveHoldRequest",
    "Command",
    "CommandContext",
    "CommandSpec",
    "Commands",
    "CreateMixRequest",
    "DataFrameFormatRequest",
    "DeadbandLimitRequest",
    "DeadbandSetting",
    "DeleteMixRequest",
    "EngineeringUnitsRequest",
    "ExhaustRequest",
    "FirmwareRange",
    "FullScaleQueryRequest",
    "GasListRequest",
    "GasMix",
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
    "RampOptions",
    "RampOptionsRequest",
    "RampRateRequest",
    "RampRateSetting",
    "ReadRegisterRequest",
    "RegisterValue",
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
    "TotalizerBatch",
    "TotalizerBatchRequest",
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
    "WriteRegisterRequest",
    "ZeroBandRequest",
    "ZeroBandSetting",
]
