"""The catalogue as tables: what goes over the wire, and what is made of what comes back."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatError,
    AlicatParseError,
    AlicatUnitIdMismatchError,
    AlicatValidationError,
    Commands,
    Device,
    FirmwareVersion,
    FlowController,
    Gas,
    LoopControlVariable,
    PressureController,
    Unit,
)
from penstock.alicat import commands as c
from penstock.alicat.data_frame import parse_data_frame_format

from .captures import FORMAT_10V20, FRAME_10V20

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
    (Commands.GAS_SELECT, c.GasSelectRequest(236), b"AGS 236", b"A 236 Mix1", ("gas", None)),
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
]
IDS = [f"{command.name}-{sent.decode()}" for command, _, sent, _, _ in LINES]

# The names of alicatlib 0.3.1's catalogue.
NAMES = [
    "ANALOG_OUTPUT_SOURCE",
    "AUTO_TARE",
    "AVERAGE_TIMING",
    "BLINK_DISPLAY",
    "CANCEL_VALVE_HOLD",
    "DATA_FRAME_FORMAT_QUERY",
    "DEADBAND_LIMIT",
    "ENGINEERING_UNITS",
    "FULL_SCALE_QUERY",
    "GAS_LIST",
    "GAS_SELECT",
    "GAS_SELECT_LEGACY",
    "HOLD_VALVES",
    "HOLD_VALVES_CLOSED",
    "LOCK_DISPLAY",
    "LOOP_CONTROL_VARIABLE",
    "MANUFACTURING_INFO",
    "POLL_DATA",
    "POWER_UP_TARE",
    "RAMP_RATE",
    "REQUEST_DATA",
    "SETPOINT",
    "SETPOINT_LEGACY",
    "SETPOINT_SOURCE",
    "STP_NTP_PRESSURE",
    "STP_NTP_TEMPERATURE",
    "STREAMING_RATE",
    "TARE_ABSOLUTE_PRESSURE",
    "TARE_FLOW",
    "TARE_GAUGE_PRESSURE",
    "TOTALIZER_CONFIG",
    "TOTALIZER_RESET",
    "TOTALIZER_RESET_PEAK",
    "TOTALIZER_SAVE",
    "UNLOCK_DISPLAY",
    "USER_DATA",
    "VALVE_DRIVE",
    "VE_QUERY",
    "ZERO_BAND",
]


def test_catalogue_has_every_command_by_its_name() -> None:
    assert sorted(Commands.all()) == NAMES
    assert all(key.lower() == command.name for key, command in Commands.all().items())


def test_every_one_line_command_stands_in_the_table() -> None:
    tables = {"MANUFACTURING_INFO", "DATA_FRAME_FORMAT_QUERY", "GAS_LIST"}
    assert {command.name.upper() for command, *_ in LINES} | tables == set(NAMES)


@pytest.mark.parametrize(("command", "request_", "sent", "answer", "expected"), LINES, ids=IDS)
def test_command_is_sent_and_answered_as_the_manual_says(
    command: c.Command[Any, Any], request_: Any, sent: bytes, answer: bytes, expected: Any
) -> None:
    assert command.encode(NEW, request_) == sent + b"\r"
    result = command.decode(answer, request_, NEW)
    if expected is None:
        assert result.unit_id == "A"
        assert result.values["Gas"] == "N2"
    elif isinstance(expected[0], str):
        assert getattr(result, expected[0]) == expected[1]
    else:
        assert result == expected


@pytest.mark.parametrize(("command", "request_", "sent", "answer", "expected"), LINES, ids=IDS)
def test_other_answers_are_refused(
    command: c.Command[Any, Any], request_: Any, sent: bytes, answer: bytes, expected: Any
) -> None:
    with pytest.raises(AlicatCommandRejectedError):
        command.decode(b"A ?", request_, NEW)
    with pytest.raises(AlicatUnitIdMismatchError):
        command.decode(b"B +014.62 +021.89 +000.00", request_, NEW)
    with pytest.raises(AlicatError):
        command.decode(b"A\xff" + answer[1:], request_, NEW)
    if answer[:2] == b"A ":
        with pytest.raises(AlicatUnitIdMismatchError):
            command.decode(b"C" + answer[1:], request_, NEW)


@given(st.sampled_from(range(len(LINES))), st.binary(max_size=50))
def test_any_line_is_an_answer_or_refused(index: int, line: bytes) -> None:
    command, request_, *_ = LINES[index]
    with contextlib.suppress(AlicatError):
        command.decode(line, request_, NEW)


@given(st.sampled_from(range(len(LINES))), st.integers(0, 60), st.integers(0, 7))
def test_one_wrong_bit_gives_an_answer_of_this_unit_or_none(
    index: int, place: int, bit: int
) -> None:
    command, request_, _, answer, expected = LINES[index]
    at = place % len(answer)
    damaged = answer[:at] + bytes([answer[at] ^ (1 << bit)]) + answer[at + 1 :]
    with contextlib.suppress(AlicatError):
        result = command.decode(damaged, request_, NEW)
        if command.identity is c.ReplyIdentity.LETTERED and expected is not None:
            assert getattr(result, "unit_id", "A") == "A"


def test_gp_firmware_is_told_with_a_prefix_and_asked_without() -> None:
    select = Commands.GAS_SELECT_LEGACY
    assert select.encode(GP, c.GasSelectLegacyRequest(8)) == b"A$$G 8\r"
    assert Commands.POLL_DATA.encode(GP, c.PollRequest()) == b"A\r"
    assert Commands.MANUFACTURING_INFO.encode(GP, c.ManufacturingInfoRequest()) == b"A??M*\r"


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        (Commands.REQUEST_DATA, c.RequestDataRequest([])),
        (Commands.REQUEST_DATA, c.RequestDataRequest(["mass_flow"] * 14)),
        (Commands.REQUEST_DATA, c.RequestDataRequest(["mass_flow"], 0)),
        (Commands.GAS_SELECT, c.GasSelectRequest(256)),
        (Commands.GAS_SELECT, c.GasSelectRequest(save=True)),
        (Commands.SETPOINT, c.SetpointRequest(float("nan"))),
        (Commands.SETPOINT_SOURCE, c.SetpointSourceRequest("X")),
        (Commands.LOOP_CONTROL_VARIABLE, c.LoopControlVariableRequest("temp_stream")),
        (Commands.RAMP_RATE, c.RampRateRequest(5)),
        (Commands.RAMP_RATE, c.RampRateRequest(-5, c.TimeUnit.SECOND)),
        (Commands.RAMP_RATE, c.RampRateRequest(None, c.TimeUnit.SECOND)),
        (Commands.DEADBAND_LIMIT, c.DeadbandLimitRequest(-1)),
        (Commands.AUTO_TARE, c.AutoTareRequest(True)),
        (Commands.AUTO_TARE, c.AutoTareRequest(True, 26)),
        (Commands.ZERO_BAND, c.ZeroBandRequest(6.39)),
        (Commands.AVERAGE_TIMING, c.AverageTimingRequest(3)),
        (Commands.AVERAGE_TIMING, c.AverageTimingRequest(5, 10_000)),
        (Commands.STP_NTP_PRESSURE, c.StpNtpPressureRequest(c.StpNtpMode.STP, None, 10)),
        (Commands.BLINK_DISPLAY, c.BlinkDisplayRequest(-2)),
        (Commands.USER_DATA, c.UserDataRequest(4)),
        (Commands.USER_DATA, c.UserDataRequest(0, "x" * 33)),
        (Commands.USER_DATA, c.UserDataRequest(0, "a\rALS 100")),
        (Commands.USER_DATA, c.UserDataRequest(0, " x")),
        (Commands.TOTALIZER_CONFIG, c.TotalizerConfigRequest(digits=7)),
        (Commands.TOTALIZER_CONFIG, c.TotalizerConfigRequest(flow_statistic_code=5)),
        (Commands.STREAMING_RATE, c.StreamingRateRequest(-1)),
    ],
)
def test_impossible_argument_is_refused(command: c.Command[Any, Any], request_: Any) -> None:
    with pytest.raises(AlicatValidationError):
        command.encode(NEW, request_)


@pytest.mark.parametrize(
    ("command", "request_", "line"),
    [
        (Commands.LOOP_CONTROL_VARIABLE, c.LoopControlVariableRequest(), b"A 35"),
        (Commands.RAMP_RATE, c.RampRateRequest(), b"A 50.0 12 9 SCCM/s"),
        (Commands.USER_DATA, c.UserDataRequest(1), b"A 2 hello"),
        (Commands.TOTALIZER_CONFIG, c.TotalizerConfigRequest(), b"A 2 5 0 1 7 2"),
        (Commands.TOTALIZER_CONFIG, c.TotalizerConfigRequest(), b"A 5 9 1 7 2"),
    ],
)
def test_answer_with_an_impossible_value_is_refused(
    command: c.Command[Any, Any], request_: Any, line: bytes
) -> None:
    with pytest.raises(AlicatParseError):
        command.decode(line, request_, NEW)


def test_gas_list_of_gp_firmware_stands_in_one_line() -> None:
    rows = [b"A G00      Air", b"A G01       Ar G02      CH4 G08       N2"]
    assert Commands.GAS_LIST.decode_rows(rows, NEW) == {0: "Air", 1: "Ar", 2: "CH4", 8: "N2"}
    assert all(Commands.GAS_LIST.is_row(row) for row in rows)
    assert not Commands.GAS_LIST.is_row(FRAME_10V20)


def test_what_is_lost_must_be_confirmed() -> None:
    confirmed = {
        name
        for name, request_ in (
            ("TOTALIZER_RESET", c.TotalizerResetRequest()),
            ("TOTALIZER_RESET_PEAK", c.TotalizerResetPeakRequest()),
            ("HOLD_VALVES_CLOSED", c.HoldValvesClosedRequest()),
        )
        if Commands.all()[name].confirm(request_)
    }
    assert confirmed == {"TOTALIZER_RESET", "TOTALIZER_RESET_PEAK", "HOLD_VALVES_CLOSED"}


@pytest.mark.parametrize("firmware", ["1v05", "5v12", "7v11"])
def test_commands_that_lock_an_old_panel_are_not_for_its_firmware(firmware: str) -> None:
    version = FirmwareVersion.parse(firmware)
    locking = {
        name
        for name, command in Commands.all().items()
        if command.token.startswith("L") and name != "LOCK_DISPLAY"
    }
    assert locking >= {"SETPOINT", "SETPOINT_SOURCE", "LOOP_CONTROL_VARIABLE", "DEADBAND_LIMIT"}
    assert not any(version in Commands.all()[name].firmware for name in locking)


@pytest.mark.parametrize(
    ("name", "has_it", "lacks_it"),
    [
        ("SETPOINT", "9v00", "8v30"),
        ("SETPOINT_LEGACY", "8v30", "9v00"),
        ("GAS_SELECT", "10v05", "10v04"),
        ("GAS_SELECT_LEGACY", "10v04", "10v05"),
        ("VALVE_DRIVE", "8v18", "8v17"),
        ("BLINK_DISPLAY", "8v28", "8v17"),
        ("RAMP_RATE", "7v11", "7v09"),
        ("HOLD_VALVES", "5v07", "5v06"),
        ("TOTALIZER_CONFIG", "10v00", "9v00"),
        ("REQUEST_DATA", "1v00", "GP"),
    ],
)
def test_command_belongs_to_a_range_of_firmware(name: str, has_it: str, lacks_it: str) -> None:
    firmware = Commands.all()[name].firmware
    assert FirmwareVersion.parse(has_it) in firmware
    assert FirmwareVersion.parse(lacks_it) not in firmware


# What alicatlib 0.3.1's devices and controllers have.
DEVICE_NAMES = """
    analog_output_source average_timing blink_display close engineering_units execute full_scale gas
    gas_list info lock_display poll power_up_tare request session snapshot stp_ntp_pressure
    stp_ntp_temperature stream tare_absolute_pressure tare_flow tare_gauge_pressure totalizer_config
    totalizer_reset totalizer_reset_peak totalizer_save unit_id unlock_display user_data zero_band
"""
CONTROLLER_NAMES = """
    auto_tare cancel_valve_hold deadband_limit hold_valves hold_valves_closed loop_control_variable
    ramp_rate setpoint setpoint_source valve_drive
"""


def test_devices_have_the_methods_that_programs_know() -> None:
    assert not [name for name in DEVICE_NAMES.split() if not hasattr(Device, name)]
    controller = f"{DEVICE_NAMES} {CONTROLLER_NAMES}".split()
    for kind in (FlowController, PressureController):
        assert not [name for name in controller if not hasattr(kind, name)]
