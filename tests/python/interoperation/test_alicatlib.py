"""The published client `alicatlib` 0.3 operates the simulated controller by each of its calls.

It opens serial ports only, so it is tested on a pty and on no TCP port.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from .published_clients import interpreter_with, outcomes

pytestmark = pytest.mark.slow

READING = {
    "Unit_ID": "A",
    "Abs_Press": 14.62,
    "Flow_Temp": 21.89,
    "Volu_Flow": 0.0,
    "Mass_Flow": 0.0,
    "Mass_Flow_Setpt": 0.0,
    "Gas": "N2",
    "status": [],
}
SETPOINT = {
    "unit_id": "A",
    "current": 0.0,
    "requested": 0.0,
    "unit": "SCCM",
    "unit_label": "SCCM",
    "reading": None,
}
NITROGEN = {"unit_id": "A", "code": 8, "gas": "N2", "label": "N2", "long_name": "Nitrogen"}
ARGON = {"unit_id": "A", "code": 1, "gas": "Ar", "label": "Ar", "long_name": "Argon"}
MASS_FLOW = {"unit_id": "A", "variable": 37, "label": "MASS_FLOW_SETPT"}
VOLUMETRIC_FLOW = {"unit_id": "A", "variable": 36, "label": "VOL_FLOW_SETPT"}
RAMP = {
    "unit_id": "A",
    "max_ramp": 50.0,
    "setpoint_unit_code": 12,
    "setpoint_unit": None,
    "time_unit": 4,
    "rate_unit_label": "SCCM/s",
}
DEADBAND = {"unit_id": "A", "deadband": 2.0, "unit": "SCCM"}
TOTALIZER = {
    "totalizer": 1,
    "flow_statistic_code": 5,
    "mode": 0,
    "limit_mode": 0,
    "digits": 10,
    "decimal_place": 2,
}
# What is asserted of a result: of an object, these of its attributes.
RESULTS: tuple[tuple[str, Any], ...] = (
    ("info", {"model": "MC-500SCCM-D", "serial": "521641", "kind": "flow_controller"}),
    ("poll", READING),
    ("snapshot", {"serial": "521641", "firmware": "10v20", "connected": True}),
    ("request", {"values": {"mass_flow": 0.0, "abs_press": 14.62}, "averaging_ms": 1}),
    ("gas", NITROGEN),
    ("gas", ARGON),
    ("gas_list", {"1": "Ar", "8": "N2", "13": "nC4H10"}),
    ("engineering_units", {"statistic": "mass_flow", "unit": "SCCM"}),
    ("full_scale", {"statistic": "mass_flow", "value": 500.0, "unit": "SCCM"}),
    ("setpoint", SETPOINT),
    ("setpoint", SETPOINT | {"requested": 50.0}),
    ("setpoint_source", "S"),
    ("setpoint_source", "S"),
    ("loop_control_variable", MASS_FLOW),
    ("loop_control_variable", VOLUMETRIC_FLOW),
    ("loop_control_variable", MASS_FLOW),
    ("hold_valves", {"reading": {"status": ["HLD"]}}),
    ("hold_valves_closed", {"reading": {"status": ["HLD"]}}),
    ("cancel_valve_hold", {"reading": {"status": []}}),
    ("valve_drive", {"unit_id": "A"}),
    ("ramp_rate", RAMP),
    ("ramp_rate", RAMP),
    ("deadband_limit", DEADBAND),
    ("deadband_limit", DEADBAND),
    ("auto_tare", {"enabled": True, "delay_s": 1.5}),
    ("auto_tare", {"enabled": True, "delay_s": 1.5}),
    ("power_up_tare", {"enabled": True}),
    ("power_up_tare", {"enabled": True}),
    ("zero_band", {"zero_band": 1.5}),
    ("zero_band", {"zero_band": 1.5}),
    ("average_timing", {"statistic_code": 5, "averaging_ms": 250}),
    ("average_timing", {"statistic_code": 5, "averaging_ms": 250}),
    ("stp_ntp_pressure", {"mode": "S", "unit": "PSI"}),
    ("stp_ntp_temperature", {"mode": "S", "unit": "°C"}),
    ("analog_output_source", {"channel": 0}),
    ("blink_display", {"flashing": True}),
    ("lock_display", {"reading": {"status": ["LCK"]}}),
    ("unlock_display", {"reading": {"status": [], "Mass_Flow": 50.0}}),
    ("user_data", {"slot": 1, "value": "Line 3"}),
    ("user_data", {"slot": 1, "value": "Line 3"}),
    ("totalizer_save", {"enabled": True}),
    ("totalizer_save", {"enabled": True}),
    ("tare_flow", {"reading": {"Mass_Flow": 0.0}}),
    ("tare_gauge_pressure", {"reading": {"Abs_Press": 14.62}}),
    ("tare_absolute_pressure", {"reading": {"Mass_Flow_Setpt": 50.0}}),
    ("totalizer_config", TOTALIZER),
    ("totalizer_config", TOTALIZER),
    ("totalizer_reset", {"reading": {"Gas": "Ar"}}),
    ("totalizer_reset_peak", {"reading": {"Gas": "Ar"}}),
    ("totalizer_config", {"flow_statistic_code": 1}),
    ("execute", ARGON),
    ("stream", [{"Unit_ID": "A", "Mass_Flow_Setpt": 50.0, "Gas": "Ar"}] * 3),
    ("change_unit_id", "B"),
    ("refresh_firmware", "10v20"),
    ("refresh_capabilities", "not implemented"),
    ("refresh_data_frame_format", True),
    ("invalidate_data_frame_format", "B"),
    ("update_setpoint_source", None),
    ("update_loop_control_variable", None),
    ("change_baud_rate", "B"),
    ("close", None),
)
LISTS = ("methods", "session methods", "functions")
# Functions of the package that ask no instrument.
WITHOUT_INSTRUMENT = {"config_from_env", "list_serial_ports", "sample_to_row", "to_pint"}


@cache
def calls(part: str) -> list[dict[str, Any]]:
    return outcomes("alicatlib", "alicatlib_calls.py", "pty", part)


@pytest.fixture(autouse=True)
def _client_is_there() -> None:
    interpreter_with("alicatlib")


def reduced(value: Any, pattern: Any) -> Any:
    """``value`` without what ``pattern`` says nothing of."""
    if isinstance(pattern, dict) and isinstance(value, dict):
        return {key: reduced(value[key], pattern[key]) for key in pattern if key in value}
    if isinstance(pattern, list) and isinstance(value, list) and len(value) == len(pattern):
        return [reduced(one, like) for one, like in zip(value, pattern, strict=True)]
    return value


def test_every_call_has_its_result() -> None:
    made = [one for one in calls("device") if one["call"] not in LISTS]
    assert [one["call"] for one in made] == [call for call, _ in RESULTS]
    for one, (call, pattern) in zip(made, RESULTS, strict=True):
        assert (call, one["error"]) == (call, None)
        assert (call, reduced(one["value"], pattern)) == (call, pattern)


def test_no_call_of_the_client_is_left_out() -> None:
    *made, methods, of_session = calls("device")
    called = {one["call"] for one in made}
    assert called >= set(methods["value"])
    assert called >= set(of_session["value"])
    *made, methods, functions = calls("bus")
    called = {one["call"] for one in made}
    assert called >= set(methods["value"])
    # The device is opened by the first of the other programs.
    assert called | WITHOUT_INSTRUMENT | {"open_device"} >= set(functions["value"])


BUS_RESULTS: tuple[tuple[str, Any], ...] = (
    ("find_devices", [[True, "521641"]]),
    ("probe", True),
    ("add", ["one"]),
    ("get", True),
    ("poll", {"one": {"value": READING, "error": None}}),
    ("request", {"one": {"value": {"values": {"mass_flow": 0.0}}, "error": None}}),
    ("execute", {"one": {"value": NITROGEN, "error": None}}),
    ("remove", []),
    ("close", True),
)


def test_discovery_and_the_manager_work() -> None:
    made = calls("bus")
    answers = [one for one in made if one["call"] not in (*LISTS, "record")]
    assert [one["call"] for one in answers] == [call for call, _ in BUS_RESULTS]
    for one, (call, pattern) in zip(answers, BUS_RESULTS, strict=True):
        assert (call, reduced(one["value"], pattern)) == (call, pattern)
    (record,) = (one for one in made if one["call"] == "record")
    assert record["value"]
    assert all(reading == READING for reading in record["value"])


def test_the_blocking_calls_work() -> None:
    poll, setpoint = calls("blocking")
    assert poll["value"] == READING
    assert setpoint["value"] == SETPOINT | {"requested": 25.0}
