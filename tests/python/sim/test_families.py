"""Every family of instruments, as its own frames show it and as the client opens it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.alicat import DeviceKind, Unit, open_device
from penstock.sim import (
    FIRMWARE_5V12,
    FIRMWARE_6V21,
    FIRMWARE_7V09,
    FIRMWARE_8V17,
    FIRMWARE_8V30,
    FIRMWARE_10V04,
    FIRMWARE_10V20,
    FIRMWARE_GP,
    BasisController,
    BasisMeter,
    Bus,
    CoriolisController,
    CoriolisMeter,
    Firmware,
    LiquidController,
    LiquidMeter,
    MassFlowController,
    MassFlowMeter,
    PressureController,
    PressureMeter,
    Provenance,
    Station,
    open_memory,
)
from penstock.sim._physics.firmware import FIRMWARES


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def bus_of(unit: Station) -> Bus:
    return Bus([unit], baudrate=None, turnaround=0.0)


# -- frames ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "frame"),
    [
        (MassFlowMeter(), "A +014.62 +021.89 +000.00 +000.00     N2"),
        (PressureController(), "A +014.62 +000.00"),
        (PressureController(reference="G"), "A +000.00 +000.00"),
        (PressureMeter(reference="D", full_scale=10.0), "A +00.000"),
        (LiquidController(), "A -000.08 +021.89 +000.00 +000.00"),
        (CoriolisMeter(), "A +021.89 +000.00 +000.00"),
        (BasisController(), "A +24.57 +000.0 +0000000.0 +000.0 +00.00     N2"),
        (BasisMeter(), "A +24.57 +000.0 +0000000.0     N2"),
    ],
)
def test_frame_has_the_columns_of_the_family(unit: MassFlowController, frame: str) -> None:
    assert unit.answer("") == [frame]


@pytest.mark.parametrize("command", ["S 10", "LSS", "HP", "SR"])
def test_meter_does_not_know_the_commands_of_controllers(command: str) -> None:
    assert MassFlowMeter().answer(command) == ["?"]
    assert MassFlowMeter().answer("LS") == ["A   1 ---"]
    assert MassFlowMeter().answer("VD") == ["A 000.00 000.00 000.00 000.00"]


def test_meter_shows_what_it_is_given_to_measure() -> None:
    clock = Clock()
    meter = MassFlowMeter(clock=clock)
    meter.instrument.supply(120.0)
    clock.now += 60.0
    assert meter.answer("DV 1 5") == ["+120.00"]


def test_pressure_controller_follows_its_setpoint_and_tares() -> None:
    clock = Clock()
    unit = PressureController(reference="G", tau=0.3, clock=clock)
    assert unit.answer("LS 40") == ["A +000.00 +040.00 10 PSIG"]
    clock.now += 60.0
    assert unit.answer("") == ["A +040.00 +040.00"]
    assert unit.answer("TP") == ["A +000.00 +040.00"]
    assert unit.answer("LV") == ["A 38"]
    assert unit.answer("LV 37") == ["?"]


# -- units, totals, gases ----------------------------------------------------------------------


def test_another_unit_changes_readings_setpoint_and_table() -> None:
    clock = Clock()
    unit = MassFlowController(full_scale=500.0, clock=clock)
    unit.answer("LS 100")
    clock.now += 60.0
    assert unit.answer("DCU 5 7") == ["A 7 SLPM"]
    assert unit.answer("LS") == ["A +00.100 +00.100 7 SLPM"]
    assert unit.answer("LS 0.25") == ["A +00.100 +00.250 7 SLPM"]
    assert unit.setpoint == pytest.approx(250.0)
    assert "A D05 005 Mass Flow                  s decimal     7/3 007 02 SLPM" in unit.answer(
        "??D*"
    )
    assert unit.answer("LS 0.6") == ["?"]
    assert unit.answer("DCU 5 99") == ["?"]
    assert unit.answer("DCU 3 3") == ["A 3 `F"]
    assert unit.answer("DV 1 3") == ["+071.40"]


def test_totalizer_counts_what_has_passed_and_is_reset() -> None:
    clock = Clock()
    unit = MassFlowController(tau=0.0, clock=clock)
    assert unit.answer("TC 1") == ["A 1 1 -1 -1 7 2"]
    assert unit.answer("TC 1 5 0 0 10 2") == ["A 1 5 0 0 10 2"]
    unit.answer("LS 120")
    clock.now += 30.0
    assert unit.answer("")[0].split()[6] == "+00000060.00"
    assert unit.answer("T 1")[0].split()[6] == "+00000000.00"
    assert unit.answer("TC 1 1") == ["A 1 1 -1 -1 7 2"]
    assert len(unit.answer("")[0].split()) == 7


def test_total_is_the_integral_of_the_lagging_flow() -> None:
    clock = Clock()
    fine, coarse = (MassFlowController(tau=2.0, clock=clock) for _ in range(2))
    for unit in (fine, coarse):
        unit.answer("TC 1 5 0 0 10 2")
        unit.answer("SR 10 4")
        unit.answer("LS 100")
    summed = 0.0
    for _ in range(2000):
        before = fine.mass_flow
        clock.now += 0.01
        summed += (before + fine.mass_flow) / 2 * 0.01 / 60.0
    coarse.instrument.advance()
    assert fine.instrument.total == pytest.approx(summed, rel=1e-5)
    assert coarse.instrument.total == pytest.approx(fine.instrument.total, rel=1e-9)


def test_reading_of_the_same_flow_changes_with_the_selected_gas() -> None:
    unit = MassFlowMeter(tau=1e9, gas=8, clock=Clock())
    unit.instrument.flowing_gas = 8
    unit.instrument.loop.flow = 100.0
    unit.answer("GS 6")
    # Nitrogen is about twice as viscous as hydrogen.
    assert unit.mass_flow == pytest.approx(100.0 * 178.0 / 89.2)


# -- firmware ----------------------------------------------------------------------------------


def test_every_firmware_states_where_its_behaviour_comes_from() -> None:
    for firmware in FIRMWARES.values():
        assert firmware.notes
    for guessed in ("gp", "basis", "coda"):
        assert FIRMWARES[guessed].provenance in (Provenance.MANUAL, Provenance.GUESS)


@pytest.mark.parametrize(
    ("firmware", "command", "answer"),
    [
        (FIRMWARE_6V21, "FPF 5", ["", "?"]),
        (FIRMWARE_6V21, "ZCA", ["A   Feature Not Enabled"]),
        (FIRMWARE_GP, "VE", []),
        (FIRMWARE_GP, "NOPE", []),
        (FIRMWARE_GP, "G 4", []),
        (FIRMWARE_GP, "$$G 4", ["A +014.62 +021.89 +0000.0 +0000.0 0000.0     CO2"]),
        (FIRMWARE_10V04, "GS", ["?"]),
    ],
)
def test_firmware_answers_what_it_does_not_know_in_its_own_way(
    firmware: Firmware, command: str, answer: list[str]
) -> None:
    assert MassFlowController(firmware=firmware).answer(command) == answer


def test_gp_lists_its_gases_on_one_line_and_pads_its_tables_with_backspaces() -> None:
    unit = MassFlowController(firmware=FIRMWARE_GP)
    (line,) = unit.answer("??G*")
    assert line.count(" G") == 30
    assert all("\b" in row for row in unit.answer("??M*") + unit.answer("??D*"))


@pytest.mark.parametrize(
    ("commands", "answer"),
    [
        (["DCZ"], "A 0 0.0"),
        (["DCZ 0 1.5", "DCZ"], "A 0 1.5"),
        (["DCZ 0 7"], "?"),
        (["DCA 5 250", "DCA 5"], "A 250"),
        (["DCFRP S"], "A 14.696 10 PSIA"),
        (["DCFRT N 0 20.0", "DCFRT N"], "A 20.0 2 `C"),
        (["DCFRP S 10 14.5", "DCFRP S"], "A 14.5 10 PSIA"),
        (["ASOCV 0 4", "ASOCV 0"], "A 4 12 CCM"),
        (["FFP 10"], "A 1"),
        (["UD 1 Line 3, argon", "UD 1"], "A 1 Line 3, argon"),
        (["TCR 1", "TCR"], "A 1"),
        (["ZCP"], "A 0"),
        (["ZCA 1 1.1"], "A 1 1.1"),
        (["ZCA 0 0"], "?"),
        (["LCDB 0 0.5"], "A 0.5 12 SCCM"),
    ],
)
def test_settings_of_10v20_are_kept(commands: list[str], answer: str) -> None:
    unit = MassFlowController()
    *before, last = commands
    for command in before:
        unit.answer(command)
    assert unit.answer(last) == [answer]


def test_basis_takes_only_ascii_digits() -> None:
    unit = BasisController()
    assert unit.answer("GS ²") == unit.answer("LCG ² 5") == ["?"]
    assert unit.answer("GS 8") == ["A 8 CH4 Methane"]


def test_changed_baud_rate_is_the_lines_after_the_answer() -> None:
    bus = Bus([MassFlowController()], baudrate=19200)
    bus.feed(b"ANCB 38400\r")
    assert bus.baudrate == 38400
    bus.feed(b"ANCB 1\r")
    assert bus.baudrate == 38400


# -- as the client sees them -------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("unit", "kind", "columns"),
    [
        (MassFlowMeter(), DeviceKind.FLOW_METER, 5),
        (MassFlowController(), DeviceKind.FLOW_CONTROLLER, 6),
        (PressureMeter(reference="G"), DeviceKind.PRESSURE_METER, 1),
        (PressureController(pressure_unit="bar"), DeviceKind.PRESSURE_CONTROLLER, 2),
        (LiquidMeter(), DeviceKind.FLOW_METER, 3),
        (LiquidController(), DeviceKind.FLOW_CONTROLLER, 4),
        (CoriolisMeter(), DeviceKind.FLOW_METER, 3),
        (CoriolisController(), DeviceKind.FLOW_CONTROLLER, 4),
        (BasisMeter(), DeviceKind.FLOW_METER, 4),
        (BasisController(), DeviceKind.FLOW_CONTROLLER, 6),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "answer") else "",
)
async def test_client_opens_and_polls_every_family(
    unit: MassFlowController, kind: DeviceKind, columns: int
) -> None:
    async with (
        open_memory(bus_of(unit)) as stream,
        # A BASIS instrument leaves two questions unanswered.
        await open_device(stream, timeout=0.8 if "Basis" in type(unit).__name__ else 20) as device,
    ):
        assert device.info.kind is kind
        assert len((await device.poll()).values) == columns


@pytest.mark.anyio
@pytest.mark.parametrize(
    "firmware",
    [
        FIRMWARE_10V20,
        FIRMWARE_10V04,
        FIRMWARE_8V30,
        FIRMWARE_8V17,
        FIRMWARE_7V09,
        FIRMWARE_6V21,
        FIRMWARE_5V12,
        FIRMWARE_GP,
    ],
    ids=lambda firmware: firmware.name,
)
async def test_client_opens_every_firmware(firmware: Firmware) -> None:
    unit = MassFlowController(full_scale=500.0, firmware=firmware)
    async with (
        open_memory(bus_of(unit)) as stream,
        # A GP instrument is silent at what it does not know.
        await open_device(stream, timeout=0.8 if firmware is FIRMWARE_GP else 20) as device,
    ):
        assert device.info.software == firmware.name
        assert device.info.serial == "521641"
        reading = await device.poll()
        assert list(reading.values)[-1] == "Gas"
        units = {field.name: field.unit for field in device.field_schema()}
        label = next(u for name, u in units.items() if name.startswith("Mass"))
        assert Unit.from_label(str(label)) is Unit.SCCM


# -- anything at all ---------------------------------------------------------------------------

FAMILIES = [
    *(MassFlowController(firmware=firmware) for firmware in FIRMWARES.values()),
    MassFlowMeter(),
    PressureController(),
    PressureMeter(),
    LiquidController(),
    CoriolisController(),
    BasisController(),
    BasisMeter(),
]
_NAMES = sorted({name for firmware in FIRMWARES.values() for name in firmware.commands} - {"@"})
_ARGUMENTS = st.lists(
    st.one_of(
        st.sampled_from(["0", "1", "2", "5", "7", "8", "36", "46=8", "122=39", "-1", "S", "²"]),
        st.text(st.characters(max_codepoint=255), max_size=6),
    ),
    max_size=6,
)


@settings(max_examples=300)
@given(
    unit=st.sampled_from(FAMILIES),
    dollars=st.sampled_from(["", "$$"]),
    name=st.sampled_from(_NAMES),
    arguments=_ARGUMENTS,
)
def test_no_arguments_break_a_unit(
    unit: MassFlowController, dollars: str, name: str, arguments: list[str]
) -> None:
    lines = unit.answer(f"{dollars}{name} {' '.join(arguments)}", 0.0)
    assert all("\r" not in line for line in lines)
    assert unit.answer("", 0.0)[0].startswith("A ")
