"""The catalogue as tables: what goes over the wire, and what is made of what comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
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
    PressureController,
)
from penstock.alicat import commands as c

from .captures import FRAME_10V20
from .command_tables import GP, LINES, NEW, TABLES

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


# What it does not have, and other programs and manuals do.
FURTHER_NAMES = [
    "BASIS_AUTO_TARE",
    "BASIS_BATCH",
    "BASIS_GAINS",
    "BASIS_GAS",
    "BASIS_HOLD_VALVE",
    "BASIS_RESET_TOTAL",
    "BASIS_TARE",
    "BAUD_RATE",
    "CREATE_MIX",
    "DELETE_MIX",
    "EXHAUST",
    "RAMP_OPTIONS",
    "READ_REGISTER",
    "TOTALIZER_BATCH",
    "WRITE_REGISTER",
]


def test_catalogue_has_every_command_by_its_name() -> None:
    assert sorted(Commands.all()) == sorted(NAMES + FURTHER_NAMES)
    assert all(key.lower() == command.name for key, command in Commands.all().items())


def test_every_command_of_the_catalogue_stands_in_a_table() -> None:
    listed = {command.name for command, *_ in LINES} | {command.name for command, *_ in TABLES}
    assert listed == {command.name for command in Commands.all().values()}


@pytest.mark.parametrize(("command", "request_", "sent", "rows", "is_right"), TABLES)
def test_table_is_asked_and_read_as_the_manual_says(
    command: c.TableCommand[Any, Any],
    request_: Any,
    sent: bytes,
    rows: list[bytes],
    is_right: Callable[[Any], bool],
) -> None:
    assert command.encode(NEW, request_) == sent + b"\r"
    assert all(command.is_row(row) for row in rows)
    assert is_right(command.decode_rows(rows, NEW))


def test_automatic_tare_of_a_basis_controller_is_a_flag() -> None:
    command = Commands.BASIS_AUTO_TARE
    assert command.encode(NEW, c.BasisAutoTareRequest(False)) == b"AZCA 0\r"
    assert command.decode(b"A 1", c.BasisAutoTareRequest(), NEW) is True
    with pytest.raises(AlicatParseError):
        command.decode(b"A 2", c.BasisAutoTareRequest(), NEW)


def test_registers_have_one_prefix_on_gp_firmware_too() -> None:
    request = c.WriteRegisterRequest(46, 8, True)
    assert Commands.WRITE_REGISTER.encode(GP, request) == b"A$$W46=8\r"


@pytest.mark.parametrize(("command", "request_", "sent", "answer", "expected"), LINES, ids=IDS)
def test_command_is_sent_and_answered_as_the_manual_says(
    command: c.Command[Any, Any], request_: Any, sent: bytes, answer: bytes, expected: Any
) -> None:
    assert command.encode(NEW, request_) == sent + b"\r"
    result = command.decode(answer, request_, NEW)
    if expected is None:
        assert result.unit_id == "A"
        assert result.values["Gas"] == "N2"
    elif isinstance(expected, tuple) and isinstance(expected[0], str):
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
        (Commands.RAMP_OPTIONS, c.RampOptionsRequest(True)),
        (Commands.CREATE_MIX, c.CreateMixRequest(235, "Mix", {"N2": 50, "O2": 50})),
        (Commands.CREATE_MIX, c.CreateMixRequest(236, "Mixture", {"N2": 50, "O2": 50})),
        (Commands.CREATE_MIX, c.CreateMixRequest(236, "a b", {"N2": 50, "O2": 50})),
        (Commands.CREATE_MIX, c.CreateMixRequest(236, "Mix", {"N2": 100})),
        (Commands.CREATE_MIX, c.CreateMixRequest(236, "Mix", {"N2": 50, "O2": 49})),
        (Commands.CREATE_MIX, c.CreateMixRequest(236, "Mix", {"N2": 50, 8: 50})),
        (Commands.CREATE_MIX, c.CreateMixRequest(236, "Mix", {"N2": 33.333, "O2": 66.667})),
        (Commands.DELETE_MIX, c.DeleteMixRequest(8)),
        (Commands.TOTALIZER_BATCH, c.TotalizerBatchRequest(volume=-1)),
        (Commands.TOTALIZER_BATCH, c.TotalizerBatchRequest(unit_code=4)),
        (Commands.READ_REGISTER, c.ReadRegisterRequest(1000)),
        (Commands.WRITE_REGISTER, c.WriteRegisterRequest(46, 2**32)),
        (Commands.BAUD_RATE, c.BaudRateRequest(14400, True)),
        (Commands.BASIS_GAS, c.BasisGasRequest("C2H6")),
        (Commands.BASIS_TARE, c.BasisTareRequest(0)),
        (Commands.BASIS_GAINS, c.BasisGainsRequest(1)),
        (Commands.BASIS_HOLD_VALVE, c.BasisHoldValveRequest(101)),
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
        (Commands.READ_REGISTER, c.ReadRegisterRequest(46), b"A   047 = 8"),
        (Commands.CREATE_MIX, c.CreateMixRequest(236, "Mix", {}), b"A 237"),
        (Commands.TOTALIZER_BATCH, c.TotalizerBatchRequest(), b"A 2 0.00 4 SL"),
        (Commands.BASIS_GAS, c.BasisGasRequest(), b"A 9 N2"),
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
            ("EXHAUST", c.ExhaustRequest()),
            ("DELETE_MIX", c.DeleteMixRequest(236)),
            ("WRITE_REGISTER", c.WriteRegisterRequest(46, 8)),
            ("BAUD_RATE", c.BaudRateRequest(38400)),
            ("BASIS_RESET_TOTAL", c.BasisResetTotalRequest()),
            ("BASIS_HOLD_VALVE", c.BasisHoldValveRequest(10)),
            ("BASIS_HOLD_VALVE", c.BasisHoldValveRequest(0)),
        )
        if Commands.all()[name].confirm(request_)
    }
    assert confirmed == {
        "BASIS_HOLD_VALVE",
        "BASIS_RESET_TOTAL",
        "BAUD_RATE",
        "DELETE_MIX",
        "EXHAUST",
        "HOLD_VALVES_CLOSED",
        "TOTALIZER_RESET",
        "TOTALIZER_RESET_PEAK",
        "WRITE_REGISTER",
    }
    assert not Commands.BASIS_HOLD_VALVE.confirm(c.BasisHoldValveRequest(0))


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
