"""The bytes of every answer, against what was captured from instruments."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.sim import (
    FIRMWARE_5V12,
    FIRMWARE_8V17,
    FIRMWARE_10V20,
    MassFlowController,
    Refusal,
)

FRAME_AT_REST = "A +014.62 +021.89 +000.00 +000.00 +000.00     N2"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def unit(clock: Clock) -> MassFlowController:
    return MassFlowController("A", full_scale=500.0, clock=clock)


def test_a_poll_answers_the_captured_frame_of_a_10v20_controller(clock: Clock) -> None:
    unit = MassFlowController("A", full_scale=500.0, tau=0.0, clock=clock)
    unit.answer("HC")
    unit.answer("LS 78.95")
    unit.answer("C")
    unit.force_flow(0.0)
    assert unit.answer("") == ["A +014.62 +021.89 +000.00 +000.00 +078.95     N2"]


def test_a_5v12_frame_has_an_unsigned_setpoint_and_a_wide_gas_column(clock: Clock) -> None:
    unit = MassFlowController(
        "A",
        full_scale=500.0,
        pressure=14.52,
        temperature=21.5,
        firmware=FIRMWARE_5V12,
        clock=clock,
    )
    unit.answer("S116.3")
    unit.force_flow(0.1)
    assert unit.answer("") == ["A +014.52 +021.50 +0000.1 +0000.1 0116.3      N2"]


def test_an_8v17_frame_is_laid_out_like_a_10v20_one(clock: Clock) -> None:
    unit = MassFlowController(
        "B",
        full_scale=200.0,
        flow_unit="SLPM",
        temperature=22.95,
        firmware=FIRMWARE_8V17,
        clock=clock,
    )
    assert unit.answer("") == ["B +014.62 +022.95 +000.00 +000.00 +000.00     N2"]


def test_version_answers_name_and_build_time(unit: MassFlowController) -> None:
    assert unit.answer("VE") == ["A   10v20.0-R24 Jan  9 2025,15:04:07"]


def test_manufacturing_table_is_the_captured_one(unit: MassFlowController) -> None:
    assert unit.answer("??M*") == [
        "A  M00 ALICAT SCIENTIFIC",
        "A  M01 www.alicat.com",
        "A  M02 Ph   520-290-6060",
        "A  M03 info@alicat.com",
        "A  M04 Model Number MC-500SCCM-D",
        "A  M05 Serial Number 521641",
        "A  M06 Date Manufactured 03/02/2025",
        "A  M07 Date Calibrated   03/02/2025",
        "A  M08 Calibrated By     BL",
        "A  M09 Software Revision 10v20.0-R24",
    ]


def test_data_format_table_is_the_captured_one(unit: MassFlowController) -> None:
    statuses = ("OPL", "POV", "P2O", "TOV", "VOV", "MOV", "TMF", "OVR", "COM", "HLD", "EXH", "GTA")
    assert unit.answer("??D*") == [
        "A D00 ID_ NAME______________________ TYPE_______ WIDTH NOTES___________________",
        "A D01 700 Unit ID                    string          1",
        "A D02 002 Abs Press                  s decimal     7/2 010 02 PSIA",
        "A D03 003 Flow Temp                  s decimal     7/2 002 02 `C",
        "A D04 004 Volu Flow                  s decimal     7/2 012 02 CCM",
        "A D05 005 Mass Flow                  s decimal     7/2 012 02 SCCM",
        "A D06 037 Mass Flow Setpt            s decimal     7/2 012 02 SCCM",
        "A D07 703 Gas                        string          6",
        "A D08 701 *Error                     string          3 ADC",
    ] + [
        f"A D{row:02} 702 *Status                    string          3 {code}"
        for row, code in enumerate([*statuses, "LCK"], start=9)
    ]


def test_legacy_data_format_table_is_the_captured_one(clock: Clock) -> None:
    unit = MassFlowController("A", full_scale=500.0, firmware=FIRMWARE_5V12, clock=clock)
    assert unit.answer("??D*") == [
        "A  D00 NAME_______ TYPE_____ MinVal_  MaxVal_  UNITS__",
        "A  D01 Unit ID     char         A         Z         na",
        "A  D02 Pressure    signed    +000.00  +160.00     PSIA",
        "A  D03 Temperature signed    -010.00  +050.00        C",
        "A  D04 Volumetric  signed    +0000.0  +0500.0      CCM",
        "A  D05 Mass        signed    +0000.0  +0500.0     SCCM",
        "A  D06 SetPoint    signed    +0000.0  +0500.0     SCCM",
        "A  D07 Gas         string        Air       D2       na",
        "A  D08 Error       string         na      ADC       na",
        "A  D09 Status      string         na      LCK       na",
        "A  D10 Status      string         na      OVR       na",
        "A  D11 Status      string         na      POV       na",
        "A  D12 Status      string         na      TOV       na",
        "A  D13 Status      string         na      VOV       na",
        "A  D14 Status      string         na      MOV       na",
    ]


def test_gas_list_starts_as_captured_and_ends_with_deuterium(unit: MassFlowController) -> None:
    lines = unit.answer("??G*")
    assert lines[:9] == [
        "A G00      Air",
        "A G01       Ar",
        "A G02      CH4",
        "A G03       CO",
        "A G04      CO2",
        "A G05     C2H6",
        "A G06       H2",
        "A G07       He",
        "A G08       N2",
    ]
    assert lines[-1] == "A G210      D-2"
    assert len(lines) == len(set(lines)) == 130


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("FPF 5", "A +500.00 12 SCCM"),
        ("FPF 37", "A +500.00 12 SCCM"),
        ("FPF 2", "A +160.00 10 PSIA"),
        ("FPF 344", "A +0 1 ---"),
        ("DCU 5", "A 12 SCCM"),
        ("DCU 4", "A 12 CCM"),
        ("LSS", "A S"),
        ("LV", "A 37"),
        ("LV 36", "A 36"),
        ("NCS", "A 50"),
        ("NCS 100", "A 100"),
        ("GS", "A 8 N2 Nitrogen"),
        ("GS 4", "A 4 CO2 Carbon Dioxide"),
        ("gs 4 1", "A 4 CO2 Carbon Dioxide"),
        ("VD", "A 000.00 000.00 000.00 000.00"),
        ("DV 10 2", "+014.62"),
        ("DV 2 2 3 4 5 37", "+014.62 +021.89 +000.00 +000.00 +000.00"),
        ("DV 2 99", "--"),
        ("DV", "?"),
        ("DV 1", "?"),
        ("DV 0 2 5 37", "?"),
        ("GS 77", "?"),
        ("LV 12", "?"),
        ("NOPE", "?"),
        ("$$XQ", "?"),
    ],
)
def test_single_line_answers(unit: MassFlowController, command: str, answer: str) -> None:
    assert unit.answer(command) == [answer]


def test_setpoint_reports_the_active_value_before_the_requested_one(
    unit: MassFlowController,
) -> None:
    assert unit.answer("LS 100.0") == ["A +000.00 +100.00 12 SCCM"]
    assert unit.answer("LS") == ["A +100.00 +100.00 12 SCCM"]


@pytest.mark.parametrize("command", ["S 75.0", "S75.0", "s75", "9600"])
def test_older_setpoint_forms_answer_with_a_frame(unit: MassFlowController, command: str) -> None:
    assert unit.answer(command) == ["A +014.62 +021.89 +000.00 +000.00 +075.00     N2"]


@pytest.mark.parametrize(
    "command",
    ["LS 500.01", "LS -0.1", "LS nan", "LS inf", "LS 1e1", "LS 1_0", "LS x", "S", "S 501", "64001"],
)
def test_an_impossible_setpoint_is_refused_and_changes_nothing(
    unit: MassFlowController, command: str
) -> None:
    unit.answer("LS 10")
    assert unit.answer(command) == ["?"]
    assert unit.setpoint == 10.0


def test_an_analog_source_accepts_and_ignores_setpoints(unit: MassFlowController) -> None:
    assert unit.answer("LSS A") == ["A A"]
    assert unit.answer("LS 100.0") == ["A +000.00 +000.00 12 SCCM"]
    assert unit.setpoint == 0.0


def test_a_ramp_separates_the_active_from_the_requested_setpoint(
    unit: MassFlowController, clock: Clock
) -> None:
    assert unit.answer("SR 10.0 4") == ["A 10.00 12 4 SCCM/s"]
    unit.answer("LS 100.0")
    clock.now += 2.5
    assert unit.answer("LS") == ["A +025.00 +100.00 12 SCCM"]
    clock.now += 10.0
    assert unit.answer("LS") == ["A +100.00 +100.00 12 SCCM"]


def test_valve_hold_keeps_the_flow_and_shows_hld_until_cancelled(
    unit: MassFlowController, clock: Clock
) -> None:
    unit.answer("LS 100.0")
    clock.now += 60.0
    assert unit.answer("HP")[0].endswith("N2 HLD")
    unit.answer("LS 0")
    clock.now += 60.0
    assert unit.mass_flow == pytest.approx(100.0)
    assert unit.answer("C")[0].endswith("N2")
    clock.now += 60.0
    assert unit.mass_flow == pytest.approx(0.0)


def test_a_closed_valve_stops_the_flow_whatever_the_setpoint(
    unit: MassFlowController, clock: Clock
) -> None:
    unit.answer("LS 100.0")
    clock.now += 60.0
    unit.answer("HC")
    clock.now += 60.0
    assert unit.answer("") == ["A +014.62 +021.89 +000.00 +000.00 +100.00     N2 HLD"]


def test_lock_and_unlock_show_and_clear_lck(unit: MassFlowController) -> None:
    assert unit.answer("L") == [FRAME_AT_REST + " LCK"]
    assert unit.answer("U") == [FRAME_AT_REST]


@pytest.mark.parametrize("command", ["T", "V"])
def test_flow_tare_makes_the_present_flow_zero(unit: MassFlowController, command: str) -> None:
    unit.force_flow(3.0)
    assert "+003.00" in unit.answer("")[0]
    assert unit.answer(command) == [FRAME_AT_REST]


def test_a_tare_with_a_number_is_refused_as_there_is_no_totalizer(
    unit: MassFlowController,
) -> None:
    unit.force_flow(3.0)
    assert unit.answer("T 1") == ["?"]
    assert "+003.00" in unit.answer("")[0]


def test_flow_over_128_percent_shows_mov_and_vov(unit: MassFlowController) -> None:
    unit.force_flow(639.0)
    assert "MOV" not in unit.answer("")[0]
    unit.force_flow(641.0)
    frame = unit.answer("")[0]
    assert "+641.00" in frame
    assert frame.endswith("N2 MOV")
    unit.force_flow(660.0)
    assert unit.answer("")[0].endswith("N2 VOV MOV")


def test_pressure_and_temperature_out_of_range_show_pov_and_tov(unit: MassFlowController) -> None:
    unit.pressure, unit.temperature = 161.0, 61.0
    assert unit.answer("")[0].endswith("N2 POV TOV")


def test_injected_statuses_appear_in_table_order_until_cleared(unit: MassFlowController) -> None:
    unit.inject_status("LCK", "ADC", "TMF")
    assert unit.answer("") == [FRAME_AT_REST + " ADC TMF LCK"]
    unit.clear_status("TMF")
    assert unit.answer("") == [FRAME_AT_REST + " ADC LCK"]
    unit.clear_status()
    assert unit.answer("") == [FRAME_AT_REST]


def test_a_status_that_the_firmware_does_not_know_cannot_be_injected() -> None:
    with pytest.raises(ValueError, match="'GTA' is not one of"):
        MassFlowController(firmware=FIRMWARE_5V12).inject_status("GTA")


def test_volumetric_flow_follows_pressure_and_temperature(unit: MassFlowController) -> None:
    unit.pressure, unit.temperature = 2 * 14.696, 25.0
    unit.force_flow(100.0)
    assert unit.answer("DV 1 4 5") == ["+050.00 +100.00"]


def test_volumetric_control_holds_the_volumetric_flow_at_the_setpoint(
    unit: MassFlowController, clock: Clock
) -> None:
    unit.pressure, unit.temperature = 2 * 14.696, 25.0
    unit.answer("LV 36")
    assert unit.answer("LS 50") == ["A +000.00 +050.00 12 CCM"]
    clock.now += 60.0
    assert unit.answer("DV 1 4 5") == ["+050.00 +100.00"]
    assert "A D06 036 Volu Flow Setpt            s decimal     7/2 012 02 CCM" in unit.answer(
        "??D*"
    )


@pytest.mark.parametrize(
    ("full_scale", "column"),
    [
        (5.0, "+00.000"),
        (10.0, "+00.000"),
        (100.0, "+000.00"),
        (500.0, "+000.00"),
        (5000.0, "+0000.0"),
        (10000.0, "+000000"),
        (50000.0, "+000000"),
    ],
)
def test_flow_columns_have_seven_characters_and_room_for_128_percent(
    full_scale: float, column: str, clock: Clock
) -> None:
    unit = MassFlowController("A", full_scale=full_scale, clock=clock)
    assert unit.answer("")[0].split()[4] == column
    unit.force_flow(full_scale * 1.3)
    shown = unit.answer("")[0].split()[4]
    assert len(shown) == 7
    assert float(shown) == pytest.approx(full_scale * 1.3)


def test_a_reading_beyond_its_column_shows_the_columns_limit(unit: MassFlowController) -> None:
    unit.force_flow(1e9)
    assert unit.answer("DV 1 5") == ["+999.99"]
    unit.force_flow(-1e9)
    assert unit.answer("DV 1 5") == ["-999.99"]


@pytest.mark.parametrize(
    ("manner", "lines"),
    [
        (Refusal.QUESTION, ["?"]),
        (Refusal.UNIT_QUESTION, ["A ?"]),
        (Refusal.SILENCE, []),
        (Refusal.FRAME, [FRAME_AT_REST]),
        (Refusal.PLACEHOLDER, ["A   1 ---"]),
        (Refusal.NOT_ENABLED, ["A   Feature Not Enabled"]),
    ],
)
def test_unknown_commands_are_answered_in_the_chosen_manner(
    manner: Refusal, lines: list[str]
) -> None:
    unit = MassFlowController(unknown=manner)
    assert unit.answer("ZZZ") == lines
    assert unit.answer("") == [FRAME_AT_REST]


def test_any_command_beginning_with_l_locks_the_display_of_a_5v12() -> None:
    unit = MassFlowController(firmware=FIRMWARE_5V12)
    (frame,) = unit.answer("LS")
    assert frame.endswith(" LCK")
    assert not unit.answer("U")[0].endswith(" LCK")


def test_an_8v17_answers_modern_setpoint_commands_with_a_plain_frame() -> None:
    unit = MassFlowController("A", firmware=FIRMWARE_8V17)
    assert unit.answer("LS 100") == [FRAME_AT_REST]
    assert unit.setpoint == 0.0
    assert unit.answer("G 4")[0].endswith("   CO2")


def test_a_firmware_is_varied_by_replacing_fields() -> None:
    slow = dataclasses.replace(FIRMWARE_10V20, name="9v99.0", commands=frozenset({"", "VE"}))
    unit = MassFlowController(firmware=slow)
    assert unit.answer("VE") == ["A   9v99.0 Jan  9 2025,15:04:07"]
    assert unit.answer("LS") == ["?"]


def test_noise_has_the_chosen_spread_and_the_same_seed_repeats_it() -> None:
    def readings(seed: int, unit_id: str = "A") -> list[float]:
        unit = MassFlowController(unit_id, full_scale=500.0, noise=0.01, seed=seed)
        unit.force_flow(250.0)
        return [float(unit.answer("DV 1 5")[0]) for _ in range(400)]

    first = readings(1)
    mean = sum(first) / len(first)
    deviation = (sum((value - mean) ** 2 for value in first) / len(first)) ** 0.5
    assert mean == pytest.approx(250.0, abs=1.5)
    assert deviation == pytest.approx(5.0, rel=0.2)
    assert readings(1) == first
    assert readings(2) != first
    assert readings(1, "B") != first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unit_id": "AB"}, "unit id 'AB'"),
        ({"unit_id": "1"}, "unit id '1'"),
        ({"full_scale": 0.0}, "full scale 0"),
        ({"full_scale": float("nan")}, "full scale nan"),
        ({"flow_unit": "GPM"}, "'GPM'"),
        ({"gas": 99}, "gas number 99"),
        ({"tau": -1.0}, "time constant -1"),
        ({"noise": -0.1}, "noise -0.1"),
    ],
)
def test_impossible_units_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MassFlowController(**arguments)  # type: ignore[arg-type]


def test_assigning_a_setpoint_out_of_range_is_an_error(unit: MassFlowController) -> None:
    with pytest.raises(ValueError, match="600"):
        unit.setpoint = 600.0
    unit.setpoint = 500.0
    assert unit.answer("LS") == ["A +500.00 +500.00 12 SCCM"]


# What published clients send and read; the forms of the answers were not captured.
@pytest.mark.parametrize(
    ("commands", "answer"),
    [
        (["$$R46"], "A   046 = 8"),
        (["$$W46=4", "R46"], "A   046 = 4"),
        (["R122"], "A   122 = 37"),
        (["W122=36", "R122"], "A   122 = 36"),
        (["$$r85"], "A   085 = 1"),
        (["$$w21=300", "$$r21"], "A   021 = 300"),
        (["W46=99"], "?"),
        (["R"], "?"),
        (["GM Shield 236 75 1 25 4"], "A 236 75% Ar, 25% CO2"),
        (["GM Shield 236 75 1 25 4", "GS 236"], "A 236 Shield 75% Ar, 25% CO2"),
        (["GM Shield 236 75 1 20 4"], "?"),
        (["GM Shield 235 75 1 25 4"], "?"),
        (["GM Shield 236 75 1 25 4", "GD236"], "A 236"),
        (["GD 236"], "?"),
        (["$$TB 1"], "A 1 0.00 3 SmL"),
        (["$$TB 2 12.5 0", "TB 2"], "A 2 12.50 3 SmL"),
        (["TB 3"], "?"),
        (["LSRC 1 0 1 0", "LSRC"], "A 1 0 1 0"),
        (["LSRC 1 2 1 0"], "?"),
        (["$$H"], f"{FRAME_AT_REST} HLD"),
        (["$$H", "$$C"], FRAME_AT_REST),
        (["E"], f"{FRAME_AT_REST} HLD EXH"),
        (["E", "C"], FRAME_AT_REST),
        (["$$PC"], FRAME_AT_REST),
    ],
)
def test_settings_are_kept(unit: MassFlowController, commands: list[str], answer: str) -> None:
    *before, last = commands
    for command in before:
        unit.answer(command)
    assert unit.answer(last) == [answer]


def test_small_flow_unit_has_its_own_volume() -> None:
    assert MassFlowController("A", full_scale=10.0, flow_unit="SLPM").answer("TB 1") == [
        "A 1 0.00 4 SL"
    ]
