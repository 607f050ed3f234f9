"""Commands as tables: the bytes of a request, an answer, and what the answer must come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.alicat import (
    Commands,
    FirmwareVersion,
    Gas,
    LoopControlVariable,
    Unit,
)
from penstock.alicat import commands as c
from penstock.alicat._instrument.data_frame import parse_data_frame_format

from .captures import FORMAT_10V20, FRAME_10V20, MADE_10V20

FORMAT = parse_data_frame_format(FORMAT_10V20)
NEW = c.CommandContext(
    "A", FirmwareVersion.parse("10v20"), FORMAT, FORMAT.decoder("A", FRAME_10V20)
)
GP = c.CommandContext("A", FirmwareVersion.parse("GP"), FORMAT, FORMAT.decoder("A"))

# Request, its bytes without the carriage return, an answer, and what the answer must come to
# (None: a data frame).
LINES: list[tuple[c.Command[Any, Any], object, bytes, bytes, object]] = [
    (Commands.POLL_DATA, c.PollRequest(), b"A", FRAME_10V20, None),
    (
        Commands.REQUEST_DATA,
        c.RequestDataRequest(["abs_press", "temp_stream", "mass_flow"], 2),
        b"ADV 2 2 3 5",
        b"+014.63 -- -000.02",
        (14.63, None, -0.02),
    ),
    (
        Commands.VE_QUERY,
        c.VeRequest(),
        b"AVE",
        b"A   10v20.0-R24 Jan  9 2025,15:04:07",
        ("software", "10v20.0-R24"),
    ),
    (Commands.GAS_SELECT, c.GasSelectRequest(), b"AGS", b"A 8 N2 Nitrogen", ("gas", Gas.N2)),
    (
        Commands.GAS_SELECT,
        c.GasSelectRequest("CO2", save=True),
        b"AGS 4 1",
        b"A 4 CO2 Carbon Dioxide",
        ("long_name", "Carbon Dioxide"),
    ),
    (Commands.GAS_SELECT, c.GasSelectRequest(236), b"AGS 236", b"A 236 Mix1", ("gas", Gas.MIX_236)),
    (Commands.GAS_SELECT_LEGACY, c.GasSelectLegacyRequest("N2"), b"AG 8", FRAME_10V20, None),
    (
        Commands.ENGINEERING_UNITS,
        c.EngineeringUnitsRequest("mass_flow"),
        b"ADCU 5",
        b"A 12 SCCM",
        ("unit", Unit.SCCM),
    ),
    (
        Commands.ENGINEERING_UNITS,
        c.EngineeringUnitsRequest("mass_flow", 7, apply_to_group=True),
        b"ADCU 5 7 1",
        b"A 7 SLPM",
        ("unit_code", 7),
    ),
    (
        Commands.ENGINEERING_UNITS,
        c.EngineeringUnitsRequest("mass_flow", 7, override_special_rules=True),
        b"ADCU 5 7 0 1",
        b"A 7 SLPM",
        ("label", "SLPM"),
    ),
    (
        Commands.FULL_SCALE_QUERY,
        c.FullScaleQueryRequest("mass_flow"),
        b"AFPF 5",
        b"A +500.00 12 SCCM",
        ("value", 500.0),
    ),
    (
        Commands.SETPOINT,
        c.SetpointRequest(),
        b"ALS",
        b"A +078.95 +078.88 12 SCCM",
        ("requested", 78.88),
    ),
    (
        Commands.SETPOINT,
        c.SetpointRequest(1e-05),
        b"ALS 0.00001",
        b"A +000.00 +000.00 12 SCCM",
        ("unit", Unit.SCCM),
    ),
    (Commands.SETPOINT_LEGACY, c.SetpointLegacyRequest(75), b"AS 75.0", FRAME_10V20, None),
    (Commands.SETPOINT_SOURCE, c.SetpointSourceRequest(), b"ALSS", b"A S", ("mode", "S")),
    (
        Commands.SETPOINT_SOURCE,
        c.SetpointSourceRequest("a", save=False),
        b"ALSS A 0",
        b"A A",
        ("mode", "A"),
    ),
    (
        Commands.LOOP_CONTROL_VARIABLE,
        c.LoopControlVariableRequest("vol_flow"),
        b"ALV 36",
        b"A 36",
        ("variable", LoopControlVariable.VOL_FLOW_SETPT),
    ),
    (
        Commands.RAMP_RATE,
        c.RampRateRequest(50, c.TimeUnit.SECOND),
        b"ASR 50.0 4",
        b"A 50.0 12 4 SCCM/s",
        ("setpoint_unit", Unit.SCCM),
    ),
    (Commands.RAMP_RATE, c.RampRateRequest(), b"ASR", b"A 0.0 12 4 SCCM/s", ("max_ramp", 0.0)),
    (
        Commands.DEADBAND_LIMIT,
        c.DeadbandLimitRequest(0.5),
        b"ALCDB 0 0.5",
        b"A 0.5 2 PSIA",
        ("unit", Unit.PSI),
    ),
    (Commands.HOLD_VALVES, c.HoldValvesRequest(), b"AHP", FRAME_10V20 + b" HLD", None),
    (Commands.HOLD_VALVES_CLOSED, c.HoldValvesClosedRequest(True), b"AHC", FRAME_10V20, None),
    (Commands.CANCEL_VALVE_HOLD, c.CancelValveHoldRequest(), b"AC", FRAME_10V20, None),
    (
        Commands.VALVE_DRIVE,
        c.ValveDriveRequest(),
        b"AVD",
        b"A 100.00 000.00 000.00 000.00",
        ("valves", (100.0, 0.0, 0.0, 0.0)),
    ),
    (Commands.TARE_FLOW, c.TareFlowRequest(), b"AT", FRAME_10V20, None),
    (Commands.TARE_GAUGE_PRESSURE, c.TareGaugePressureRequest(), b"ATP", FRAME_10V20, None),
    (Commands.TARE_ABSOLUTE_PRESSURE, c.TareAbsolutePressureRequest(), b"APC", FRAME_10V20, None),
    (Commands.AUTO_TARE, c.AutoTareRequest(True, 1.5), b"AZCA 1 1.5", b"A 1 1.5", ("delay_s", 1.5)),
    (Commands.AUTO_TARE, c.AutoTareRequest(False), b"AZCA 0", b"A 0 1.1", ("enabled", False)),
    (Commands.POWER_UP_TARE, c.PowerUpTareRequest(True), b"AZCP 1", b"A 1", ("enabled", True)),
    (Commands.ZERO_BAND, c.ZeroBandRequest(1), b"ADCZ 0 1.0", b"A 0 1.0", ("zero_band", 1.0)),
    (
        Commands.AVERAGE_TIMING,
        c.AverageTimingRequest(5, 100),
        b"ADCA 5 100",
        b"A 100",
        ("averaging_ms", 100),
    ),
    (
        Commands.AVERAGE_TIMING,
        c.AverageTimingRequest(5),
        b"ADCA 5",
        b"A 5 100",
        ("averaging_ms", 100),
    ),
    (
        Commands.STP_NTP_PRESSURE,
        c.StpNtpPressureRequest(c.StpNtpMode.STP, 14.696),
        b"ADCFRP S 0 14.696",
        b"A 14.696 10 PSIA",
        ("unit", Unit.PSI),
    ),
    (
        Commands.STP_NTP_TEMPERATURE,
        c.StpNtpTemperatureRequest(c.StpNtpMode.NTP, 0, 2),
        b"ADCFRT N 2 0.0",
        b"A 0.0 2 `C",
        ("unit", Unit.DEG_C),
    ),
    (
        Commands.ANALOG_OUTPUT_SOURCE,
        c.AnalogOutputSourceRequest(c.AnalogOutputChannel.PRIMARY, 5, 12),
        b"AASOCV 0 5 12",
        b"A 5 12 SCCM",
        ("value", 5),
    ),
    (Commands.BLINK_DISPLAY, c.BlinkDisplayRequest(-1), b"AFFP -1", b"A 1", ("flashing", True)),
    (Commands.LOCK_DISPLAY, c.LockDisplayRequest(), b"AL", FRAME_10V20 + b" LCK", None),
    (Commands.UNLOCK_DISPLAY, c.UnlockDisplayRequest(), b"AU", FRAME_10V20, None),
    (
        Commands.USER_DATA,
        c.UserDataRequest(1, "hello you"),
        b"AUD 1 hello you",
        b"A 1 hello you",
        ("value", "hello you"),
    ),
    (Commands.USER_DATA, c.UserDataRequest(2), b"AUD 2", b"A", ("value", "")),
    (
        Commands.TOTALIZER_CONFIG,
        c.TotalizerConfigRequest(
            c.TotalizerId.SECOND,
            5,
            c.TotalizerMode.POSITIVE_ONLY,
            c.TotalizerLimitMode.ROLLOVER,
            7,
            2,
        ),
        b"ATC 2 5 0 1 7 2",
        b"A 2 5 0 1 7 2",
        ("enabled", True),
    ),
    (
        Commands.TOTALIZER_CONFIG,
        c.TotalizerConfigRequest(flow_statistic_code=1),
        b"ATC 1 1",
        b"A 1 0 1 7 2",
        ("enabled", False),
    ),
    (Commands.TOTALIZER_RESET, c.TotalizerResetRequest(confirm=True), b"AT 1", FRAME_10V20, None),
    (
        Commands.TOTALIZER_RESET_PEAK,
        c.TotalizerResetPeakRequest(c.TotalizerId.SECOND, True),
        b"ATP 2",
        FRAME_10V20,
        None,
    ),
    (Commands.TOTALIZER_SAVE, c.TotalizerSaveRequest(True), b"ATCR 1", b"A 1", ("enabled", True)),
    (Commands.STREAMING_RATE, c.StreamingRateRequest(50), b"ANCS 50", b"A 50", ("rate_ms", 50)),
    (
        Commands.RAMP_OPTIONS,
        c.RampOptionsRequest(True, False, True, False),
        b"ALSRC 1 0 1 0",
        b"A 1 0 1 0",
        ("to_zero", True),
    ),
    (Commands.RAMP_OPTIONS, c.RampOptionsRequest(), b"ALSRC", b"A 1 1 0 0", ("at_power_up", False)),
    (Commands.EXHAUST, c.ExhaustRequest(True), b"AE", FRAME_10V20 + b" EXH", None),
    (
        Commands.CREATE_MIX,
        c.CreateMixRequest(236, "Shield", {"N2": 50, 11: 30.25, Gas.CO2: 19.75}),
        b"AGM Shield 236 50 8 30.25 11 19.75 4",
        b"A 236 50.00% N2, 30.25% O2, 19.75% CO2",
        ("number", 236),
    ),
    (Commands.DELETE_MIX, c.DeleteMixRequest(236, True), b"AGD 236", b"A 236", ("number", 236)),
    (
        Commands.TOTALIZER_BATCH,
        c.TotalizerBatchRequest(c.TotalizerId.SECOND, 12.5, 4),
        b"ATB 2 12.5 4",
        b"A 2 12.50 4 SL",
        ("volume", 12.5),
    ),
    (
        Commands.TOTALIZER_BATCH,
        c.TotalizerBatchRequest(),
        b"ATB 1",
        b"A 1 0.00 4 SL",
        ("unit_label", "SL"),
    ),
    (
        Commands.READ_REGISTER,
        c.ReadRegisterRequest(46),
        b"A$$R46",
        b"A   046 = 8",
        ("value", 8),
    ),
    (
        Commands.WRITE_REGISTER,
        c.WriteRegisterRequest(122, 37, True),
        b"A$$W122=37",
        b"A   122 = 37",
        ("value", 37),
    ),
    (Commands.BAUD_RATE, c.BaudRateRequest(38400, True), b"ANCB 38400", b"A 38400", 38400),
    (Commands.BASIS_GAS, c.BasisGasRequest("CH4"), b"AGS 8", b"A 8 CH4 Methane", ("gas", Gas.CH4)),
    (Commands.BASIS_GAS, c.BasisGasRequest(), b"AGS", b"A 3 N2", ("gas", Gas.N2)),
    (Commands.BASIS_AUTO_TARE, c.BasisAutoTareRequest(False), b"AZCA 0", b"A 0", False),
    (Commands.BASIS_TARE, c.BasisTareRequest(500), b"AV 500", FRAME_10V20, None),
    (Commands.BASIS_RESET_TOTAL, c.BasisResetTotalRequest(True), b"AT", FRAME_10V20, None),
    (Commands.BASIS_BATCH, c.BasisBatchRequest(200), b"ATB 200.0", b"A 200.0", ("volume", 200.0)),
    (Commands.BASIS_GAINS, c.BasisGainsRequest(), b"ALCG", b"A 500 5000", ("integral", 5000)),
    (
        Commands.BASIS_GAINS,
        c.BasisGainsRequest(500, 4000),
        b"ALCG 500 4000",
        b"A 500 4000",
        ("proportional", 500),
    ),
    (
        Commands.BASIS_HOLD_VALVE,
        c.BasisHoldValveRequest(10, True),
        b"AHPUR 10.0",
        FRAME_10V20,
        None,
    ),
]
# Commands that are answered by a table: request, its bytes, and what a table of two rows comes to.
TABLES: list[tuple[c.TableCommand[Any, Any], object, bytes, list[bytes], Callable[[Any], bool]]] = [
    (
        Commands.MANUFACTURING_INFO,
        c.ManufacturingInfoRequest(),
        b"A??M*",
        MADE_10V20,
        lambda info: info.serial == "521641",
    ),
    (
        Commands.DATA_FRAME_FORMAT_QUERY,
        c.DataFrameFormatRequest(),
        b"A??D*",
        FORMAT_10V20,
        lambda form: form.names()[3] == "Mass_Flow",
    ),
    (
        Commands.GAS_LIST,
        c.GasListRequest(),
        b"A??G*",
        [b"A G00      Air", b"A G08       N2"],
        lambda gases: gases == {0: "Air", 8: "N2"},
    ),
]
