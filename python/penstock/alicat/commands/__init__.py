"""The commands of the protocol, one object for each; :class:`Commands` holds them all."""

from __future__ import annotations

from typing import Any, Final

from penstock.alicat.commands.basis import (
    BASIS_AUTO_TARE,
    BASIS_BATCH,
    BASIS_GAINS,
    BASIS_GAS,
    BASIS_HOLD_VALVE,
    BASIS_RESET_TOTAL,
    BASIS_TARE,
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
from penstock.alicat.commands.command import (
    Command,
    CommandContext,
    CommandSpec,
    FirmwareRange,
    ReplyIdentity,
    ReportedUnit,
    TableCommand,
)
from penstock.alicat.commands.control import (
    CANCEL_VALVE_HOLD,
    DEADBAND_LIMIT,
    EXHAUST,
    HOLD_VALVES,
    HOLD_VALVES_CLOSED,
    LOOP_CONTROL_VARIABLE,
    RAMP_OPTIONS,
    RAMP_RATE,
    SETPOINT,
    SETPOINT_LEGACY,
    SETPOINT_SOURCE,
    VALVE_DRIVE,
    CancelValveHoldRequest,
    DeadbandLimitRequest,
    DeadbandSetting,
    ExhaustRequest,
    HoldValvesClosedRequest,
    HoldValvesRequest,
    LoopControlState,
    LoopControlVariableRequest,
    RampOptions,
    RampOptionsRequest,
    RampRateRequest,
    RampRateSetting,
    SetpointLegacyRequest,
    SetpointRequest,
    SetpointSourceRequest,
    SetpointSourceResult,
    TimeUnit,
    ValveDriveRequest,
    ValveDriveState,
)
from penstock.alicat.commands.gas import (
    CREATE_MIX,
    DELETE_MIX,
    GAS_LIST,
    GAS_SELECT,
    GAS_SELECT_LEGACY,
    CreateMixRequest,
    DeleteMixRequest,
    GasListRequest,
    GasMix,
    GasSelectLegacyRequest,
    GasSelectRequest,
    GasState,
)
from penstock.alicat.commands.measurement import (
    AVERAGE_TIMING,
    ENGINEERING_UNITS,
    FULL_SCALE_QUERY,
    STP_NTP_PRESSURE,
    STP_NTP_TEMPERATURE,
    ZERO_BAND,
    AverageTimingRequest,
    AverageTimingSetting,
    EngineeringUnitsRequest,
    FullScaleQueryRequest,
    StpNtpMode,
    StpNtpPressureRequest,
    StpNtpPressureSetting,
    StpNtpTemperatureRequest,
    StpNtpTemperatureSetting,
    UnitSetting,
    ZeroBandRequest,
    ZeroBandSetting,
)
from penstock.alicat.commands.polling import (
    POLL_DATA,
    REQUEST_DATA,
    STREAMING_RATE,
    PollRequest,
    RequestDataRequest,
    StreamingRateRequest,
    StreamingRateResult,
)
from penstock.alicat.commands.registers import (
    READ_REGISTER,
    USER_DATA,
    WRITE_REGISTER,
    ReadRegisterRequest,
    RegisterValue,
    UserDataRequest,
    UserDataSetting,
    WriteRegisterRequest,
)
from penstock.alicat.commands.system import (
    ANALOG_OUTPUT_SOURCE,
    BAUD_RATE,
    BLINK_DISPLAY,
    DATA_FRAME_FORMAT_QUERY,
    LOCK_DISPLAY,
    MANUFACTURING_INFO,
    UNLOCK_DISPLAY,
    VE_QUERY,
    AnalogOutputChannel,
    AnalogOutputSourceRequest,
    AnalogOutputSourceSetting,
    BaudRateRequest,
    BlinkDisplayRequest,
    BlinkDisplayState,
    DataFrameFormatRequest,
    LockDisplayRequest,
    ManufacturingInfoRequest,
    UnlockDisplayRequest,
    VeRequest,
    VeResult,
)
from penstock.alicat.commands.tare import (
    AUTO_TARE,
    POWER_UP_TARE,
    TARE_ABSOLUTE_PRESSURE,
    TARE_FLOW,
    TARE_GAUGE_PRESSURE,
    AutoTareRequest,
    AutoTareState,
    PowerUpTareRequest,
    PowerUpTareState,
    TareAbsolutePressureRequest,
    TareFlowRequest,
    TareGaugePressureRequest,
)
from penstock.alicat.commands.totalizer import (
    TOTALIZER_BATCH,
    TOTALIZER_CONFIG,
    TOTALIZER_RESET,
    TOTALIZER_RESET_PEAK,
    TOTALIZER_SAVE,
    TotalizerBatch,
    TotalizerBatchRequest,
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


class Commands:
    """Every command that a session can execute, by name."""

    POLL_DATA: Final = POLL_DATA
    REQUEST_DATA: Final = REQUEST_DATA
    VE_QUERY: Final = VE_QUERY
    MANUFACTURING_INFO: Final = MANUFACTURING_INFO
    DATA_FRAME_FORMAT_QUERY: Final = DATA_FRAME_FORMAT_QUERY
    GAS_SELECT: Final = GAS_SELECT
    GAS_SELECT_LEGACY: Final = GAS_SELECT_LEGACY
    GAS_LIST: Final = GAS_LIST
    ENGINEERING_UNITS: Final = ENGINEERING_UNITS
    FULL_SCALE_QUERY: Final = FULL_SCALE_QUERY
    SETPOINT: Final = SETPOINT
    SETPOINT_LEGACY: Final = SETPOINT_LEGACY
    SETPOINT_SOURCE: Final = SETPOINT_SOURCE
    LOOP_CONTROL_VARIABLE: Final = LOOP_CONTROL_VARIABLE
    RAMP_RATE: Final = RAMP_RATE
    DEADBAND_LIMIT: Final = DEADBAND_LIMIT
    HOLD_VALVES: Final = HOLD_VALVES
    HOLD_VALVES_CLOSED: Final = HOLD_VALVES_CLOSED
    CANCEL_VALVE_HOLD: Final = CANCEL_VALVE_HOLD
    VALVE_DRIVE: Final = VALVE_DRIVE
    TARE_FLOW: Final = TARE_FLOW
    TARE_GAUGE_PRESSURE: Final = TARE_GAUGE_PRESSURE
    TARE_ABSOLUTE_PRESSURE: Final = TARE_ABSOLUTE_PRESSURE
    AUTO_TARE: Final = AUTO_TARE
    POWER_UP_TARE: Final = POWER_UP_TARE
    ZERO_BAND: Final = ZERO_BAND
    AVERAGE_TIMING: Final = AVERAGE_TIMING
    STP_NTP_PRESSURE: Final = STP_NTP_PRESSURE
    STP_NTP_TEMPERATURE: Final = STP_NTP_TEMPERATURE
    ANALOG_OUTPUT_SOURCE: Final = ANALOG_OUTPUT_SOURCE
    BLINK_DISPLAY: Final = BLINK_DISPLAY
    LOCK_DISPLAY: Final = LOCK_DISPLAY
    UNLOCK_DISPLAY: Final = UNLOCK_DISPLAY
    USER_DATA: Final = USER_DATA
    TOTALIZER_CONFIG: Final = TOTALIZER_CONFIG
    TOTALIZER_RESET: Final = TOTALIZER_RESET
    TOTALIZER_RESET_PEAK: Final = TOTALIZER_RESET_PEAK
    TOTALIZER_SAVE: Final = TOTALIZER_SAVE
    STREAMING_RATE: Final = STREAMING_RATE
    RAMP_OPTIONS: Final = RAMP_OPTIONS
    EXHAUST: Final = EXHAUST
    CREATE_MIX: Final = CREATE_MIX
    DELETE_MIX: Final = DELETE_MIX
    TOTALIZER_BATCH: Final = TOTALIZER_BATCH
    READ_REGISTER: Final = READ_REGISTER
    WRITE_REGISTER: Final = WRITE_REGISTER
    BAUD_RATE: Final = BAUD_RATE
    BASIS_GAS: Final = BASIS_GAS
    BASIS_TARE: Final = BASIS_TARE
    BASIS_AUTO_TARE: Final = BASIS_AUTO_TARE
    BASIS_RESET_TOTAL: Final = BASIS_RESET_TOTAL
    BASIS_BATCH: Final = BASIS_BATCH
    BASIS_GAINS: Final = BASIS_GAINS
    BASIS_HOLD_VALVE: Final = BASIS_HOLD_VALVE

    @classmethod
    def all(cls) -> dict[str, CommandSpec[Any]]:
        """The commands by their names in this class."""
        return {name: value for name, value in vars(cls).items() if isinstance(value, CommandSpec)}
