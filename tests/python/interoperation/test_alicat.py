"""The published client `alicat` 0.9 operates the simulated controller by each of its calls."""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from unittest.mock import ANY

import pytest

from penstock.sim import BasisController, LiquidController, MassFlowMeter

from .published_clients import (
    PORTS,
    first_lines,
    interpreter_with,
    outcomes,
    output_of,
)

pytestmark = pytest.mark.slow

READING = {
    "pressure": 14.62,
    "temperature": 21.89,
    "volumetric_flow": 0.0,
    "mass_flow": 0.0,
    "setpoint": 0.0,
    "gas": "N2",
    "control_point": "mass flow",
}


def reading_at(flow: float) -> dict[str, Any]:
    volumetric = pytest.approx(flow, rel=0.02)  # near standard conditions
    return READING | {"volumetric_flow": volumetric, "mass_flow": flow, "setpoint": flow}


AT_20_PSIA = READING | {
    "pressure": 20.0,
    "setpoint": 20.0,
    "control_point": "abs pressure",
    "mass_flow": pytest.approx(18.5, abs=0.1),  # through the simulated orifice
    "volumetric_flow": pytest.approx(13.5, abs=0.2),
}
RESULTS: tuple[tuple[str, Any], ...] = (
    ("get", READING),
    ("set_gas", None),
    ("get", READING | {"gas": "Ar"}),
    ("set_gas", None),
    ("get_firmware", "A   10v20.0-R24 Jan  9 2025,15:04:07"),
    ("create_mix", None),
    ("set_gas", None),
    ("get", READING | {"gas": "Mix1"}),
    ("set_gas", None),
    ("delete_mix", None),
    ("lock", None),
    ("is_locked", True),
    ("unlock", None),
    ("is_locked", False),
    ("tare_pressure", None),
    ("tare_volumetric", None),
    ("reset_totalizer", None),
    ("flush", None),
    ("set_flow_rate", None),
    ("get", reading_at(50.0)),
    ("get_totalizer_batch", "0.00 SmL"),
    ("set_totalizer_batch", None),
    ("get_totalizer_batch", "5000.00 SmL"),
    ("hold", None),
    ("set_flow_rate", None),
    ("cancel_hold", None),
    ("get", reading_at(20.0)),
    ("get_pid", {"loop_type": "PD/PDF", "P": "200", "D": "20", "I": "100"}),
    ("set_pid", None),
    ("get_pid", {"loop_type": "PD2I", "P": "100", "D": "300", "I": "200"}),
    ("set_ramp_config", None),
    ("get_ramp_config", {"up": True, "down": False, "zero": True, "power": False}),
    ("set_maxramp", None),
    ("get_maxramp", {"max_ramp": 50.0, "units": "SCCM/s"}),
    ("set_maxramp", None),
    ("set_pressure", None),
    ("get", AT_20_PSIA),
    ("set_flow_rate", None),
    ("get", READING),
    ("close", None),
)


@cache
def calls(port: str) -> list[dict[str, Any]]:
    return outcomes("alicat", "alicat_calls.py", port, "calls")


@pytest.fixture(params=PORTS)
def port(request: pytest.FixtureRequest) -> str:
    interpreter_with("alicat")
    return str(request.param)


def test_every_call_has_its_result(port: str) -> None:
    made = [
        (one["call"], one["value"], one["error"]) for one in calls(port) if one["call"] != "methods"
    ]
    assert made == [(call, value, None) for call, value in RESULTS]


def test_no_call_of_the_client_is_left_out(port: str) -> None:
    *made, methods = calls(port)
    # Of these one is a class method, with a test of its own.
    assert {one["call"] for one in made} | {"is_connected"} == set(methods["value"])


def test_a_meter_is_read_and_recognised(port: str) -> None:
    reading = {key: READING[key] for key in READING if key not in ("setpoint", "control_point")}
    program = ("alicat", "alicat_calls.py", port)
    (made,) = outcomes(*program, "meter", make=MassFlowMeter)
    assert made["value"] == reading
    (as_meter,) = outcomes(*program, "connected", "FlowMeter", make=MassFlowMeter)
    assert as_meter["value"] is True
    (as_controller,) = outcomes(*program, "connected", "FlowController", make=MassFlowMeter)
    assert as_controller["value"] is False


def test_a_liquid_controller_is_read(port: str) -> None:
    (made,) = outcomes("alicat", "alicat_calls.py", port, "meter", make=LiquidController)
    # The client calls what is in the place of the mass flow by that name.
    assert list(made["value"]) == ["pressure", "temperature", "mass_flow", "setpoint"]
    assert made["value"]["temperature"] == 21.89


BASIS_READING = {
    "temperature": 24.57,
    "mass_flow": 0.0,
    "totalizer": 0.0,
    "setpoint": 0.0,
    "valve_drive": 0.0,
    "gas": "N2",
    "control_point": "mass flow",
}
BASIS_AT_20 = BASIS_READING | {
    "mass_flow": 20.0,
    "setpoint": 20.0,
    "valve_drive": 20.0,
    "totalizer": pytest.approx(0, abs=1e6),  # it counts from the setpoint on
}
BASIS_RESULTS: tuple[tuple[str, Any], ...] = (
    ("get", BASIS_READING),
    ("set_gas", None),
    ("get", BASIS_READING | {"gas": "CO2"}),
    ("set_gas", None),
    ("get_firmware", "A 2.1.0"),
    ("tare", None),
    ("reset_totalizer", None),
    ("set_flow_rate", None),
    ("hold", None),
    ("cancel_hold", None),
    ("get", BASIS_AT_20),
    ("set_totalizer_batch", None),
    ("get_totalizer_batch", ["A 5000.0", ANY]),  # and what remains, while gas flows
    ("get_pid", {"P": "500", "I": "5000"}),
    ("set_pid", None),
    ("get_pid", {"P": "400", "I": "3000"}),
    ("flush", None),
    ("close", None),
)
# Inherited from the class for other instruments; a BASIS instrument has no such commands.
NOT_OF_BASIS = {
    *("create_mix", "delete_mix", "is_locked", "lock", "unlock"),
    *("tare_pressure", "tare_volumetric"),
}


def test_a_basis_controller_is_operated() -> None:
    interpreter_with("alicat")
    *made, methods = outcomes(
        "alicat", "alicat_calls.py", "pty", "basis", make=lambda: BasisController(tau=0.0)
    )
    found = [(one["call"], one["value"], one["error"]) for one in made]
    assert found == [(call, value, None) for call, value in BASIS_RESULTS]
    called = {one["call"] for one in made} | {"is_connected"}
    assert called == set(methods["value"]) - NOT_OF_BASIS


def test_the_client_recognises_a_controller(port: str) -> None:
    program = ("alicat", "alicat_calls.py", port, "connected")
    (as_controller,) = outcomes(*program, "FlowController")
    assert as_controller["value"] is True
    # A controller's frame has a setpoint, so it is no meter.
    (as_meter,) = outcomes(*program, "FlowMeter")
    assert as_meter["value"] is False


def test_the_meters_class_reads_the_controller(port: str) -> None:
    (made,) = outcomes("alicat", "alicat_calls.py", port, "meter")
    assert made["value"] == {key: READING[key] for key in READING if key != "control_point"}


OPTIONS = {
    "read": ([], READING),
    "flow": (["-f", "50", "-l"], reading_at(50.0)),
    "gas": (["--unit", "A", "-g", "Ar", "-ul"], READING | {"gas": "Ar"}),
    "hold": (["-hd", "-c", "-r"], READING),
    # The command line sets before it has asked what is controlled, so this sets the flow.
    "pressure": (["-p", "20"], reading_at(20.0)),
    "long": (
        ["--unit=A", "--set-gas=Ar", "--set-flow-rate=50", "--lock", "--unlock"],
        reading_at(50.0) | {"gas": "Ar"},
    ),
    "long-hold": (["--hold", "--cancel-hold", "--reset-totalizer", "-u", "A"], READING),
    "long-pressure": (["--set-pressure=20"], reading_at(20.0)),
}


@pytest.mark.parametrize("options", OPTIONS)
def test_the_command_line_prints_the_reading(port: str, options: str) -> None:
    arguments, reading = OPTIONS[options]
    printed = output_of("alicat", "alicat_calls.py", port, "command-line", *arguments)
    assert json.loads(printed) == reading


@pytest.mark.parametrize("option", ["--stream", "-s"])
def test_the_command_line_prints_a_table(port: str, option: str) -> None:
    program = ("alicat", "alicat_calls.py", port)
    heading, *rows = first_lines(*program, 3, "command-line", option)
    assert heading.split() == ["time", *(key for key in READING if key != "control_point")]
    assert [row.split()[1:] for row in rows] == [
        ["14.62", "21.89", "0.00", "0.00", "0.00", "N2"]
    ] * 2


def test_no_class_and_no_option_is_left_out() -> None:
    interpreter_with("alicat")
    *classes, options = outcomes("alicat", "alicat_calls.py", "pty", "methods")
    called = {name for name, *_ in (*RESULTS, *BASIS_RESULTS)} | {"is_connected"}
    assert [one["call"] for one in classes] == [
        *("FlowMeter", "FlowController", "BASISMeter", "BASISController"),
    ]
    for one in classes:
        assert set(one["value"]) <= called | NOT_OF_BASIS, one["call"]
    given = {word.partition("=")[0] for words, _ in OPTIONS.values() for word in words}
    assert set(options["value"]) <= given | {"--stream", "-s", "--help", "-h"}
