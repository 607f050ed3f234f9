"""Totalizers count by their modes, stop or roll at their limits, and are two."""

from __future__ import annotations

import math

import pytest

from penstock.sim import LiquidMeter, MassFlowController, MassFlowMeter, PressureController


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def meter(settings: str, *, tau: float = 0.0) -> tuple[MassFlowMeter, Clock]:
    clock = Clock()
    unit = MassFlowMeter("A", tau=tau, clock=clock)
    assert unit.answer(f"TC {settings}") == [f"A {settings}"]
    return unit, clock


def flow(unit: MassFlowMeter, clock: Clock, value: float, seconds: float) -> None:
    unit.instrument.supply(value)
    clock.now += seconds
    unit.instrument.advance()


@pytest.mark.parametrize(("mode", "total"), [(0, 30.0), (1, -10.0), (2, 20.0), (3, 0.0)])
def test_mode_says_which_flow_is_counted(mode: int, total: float) -> None:
    unit, clock = meter(f"1 5 {mode} 0 10 2")
    flow(unit, clock, 30.0, 60.0)
    flow(unit, clock, -10.0, 60.0)
    assert unit.instrument.total == pytest.approx(total)
    assert unit.answer("DV 1 9") == [f"{total:+012.2f}"]


def test_total_begins_anew_after_the_flow_has_stopped() -> None:
    unit, clock = meter("1 5 3 0 10 2")
    flow(unit, clock, 60.0, 10.0)
    assert unit.instrument.total == pytest.approx(10.0)
    flow(unit, clock, 0.0, 1.0)
    assert unit.instrument.total == 0.0
    flow(unit, clock, 60.0, 5.0)
    assert unit.instrument.total == pytest.approx(5.0)


def test_flow_that_turns_is_counted_in_both_directions() -> None:
    unit, clock = meter("1 5 0 0 10 2", tau=2.0)
    assert unit.answer("TC 2 5 1 0 10 2") == ["A 2 5 1 0 10 2"]
    unit.instrument.loop.flow = 100.0
    flow(unit, clock, -50.0, 10.0)
    # 150 exp(-t / 2) - 50 is 0 at t = 2 ln 3.
    turns = 2.0 * math.log(3.0)
    forward = 150.0 * 2.0 * (1.0 - 1.0 / 3.0) - 50.0 * turns
    whole = 150.0 * 2.0 * (1.0 - math.exp(-5.0)) - 50.0 * 10.0
    first, second = unit.instrument.totalizers
    assert first.value == pytest.approx(forward / 60.0, rel=1e-6)
    assert second.value == pytest.approx((whole - forward) / 60.0, rel=1e-6)


@pytest.mark.parametrize(
    ("limit", "total", "shown"),
    [(0, 99.99999, False), (1, 20.0, False), (2, 99.99999, True), (3, 20.0, True)],
)
def test_limit_mode_says_what_happens_when_the_digits_are_used_up(
    limit: int, total: float, shown: bool
) -> None:
    unit, clock = meter(f"1 5 0 {limit} 7 5")
    flow(unit, clock, 60.0, 120.0)
    assert unit.instrument.total == pytest.approx(total)
    assert ("TOV" in unit.statuses()) is shown
    unit.answer("T 1")
    assert (unit.instrument.total, "TOV" in unit.statuses()) == (0.0, False)


def test_column_has_the_digits_that_were_chosen() -> None:
    unit, clock = meter("1 5 0 0 8 3")
    flow(unit, clock, 60.0, 60.0)
    assert unit.answer("")[0].split()[5] == "+00060.000"
    assert any("Tot Mass" in row and "10/3 003 02 SmL" in row for row in unit.answer("??D*"))


def test_second_totalizer_counts_another_flow_and_is_reset_alone() -> None:
    clock = Clock()
    unit = MassFlowController("A", tau=0.0, pressure=2 * 14.696, temperature=25.0, clock=clock)
    unit.answer("TC 1 5 0 0 10 2")
    unit.answer("TC 2 4 0 0 10 2")
    unit.answer("LS 120")
    clock.now += 60.0
    frame = unit.answer("")[0].split()
    assert frame[6:8] == ["+00000120.00", "+00000060.00"]
    rows = unit.answer("??D*")
    assert any("009 Tot Mass " in row for row in rows)
    assert any("008 Tot Vol 2" in row and "003 02 mL" in row for row in rows)
    unit.answer("T 2")
    first, second = unit.instrument.totalizers
    assert (first.value, second.value) == (pytest.approx(120.0), 0.0)
    assert unit.answer("TC 2 1") == ["A 2 1 -1 -1 7 2"]
    assert unit.answer("T 2") == ["?"]


def test_total_of_volume_controlled_flow_is_that_of_the_mass() -> None:
    clock = Clock()
    unit = MassFlowController("A", tau=0.0, pressure=2 * 14.696, temperature=25.0, clock=clock)
    unit.answer("TC 1 5 0 0 10 2")
    unit.answer("LV 36")
    unit.answer("LS 60")
    clock.now += 60.0
    assert unit.answer("")[0].split()[6] == "+00000120.00"


def test_modes_that_are_left_out_are_kept() -> None:
    unit, _ = meter("1 5 1 3 10 2")
    unit.answer("TC 1 5 -1 -1 9 2")
    totalizer = unit.instrument.totalizers[0]
    assert (totalizer.mode, totalizer.limit_mode, totalizer.digits) == (1, 3, 9)


def test_totals_outlast_a_loss_of_power_if_they_are_saved() -> None:
    unit, clock = meter("1 5 0 0 10 2")
    flow(unit, clock, 60.0, 60.0)
    unit.answer("TCR 1")
    unit.reboot(clock.now, 1.0)
    assert unit.instrument.total == pytest.approx(60.0)
    unit.answer("TCR 0")
    unit.reboot(clock.now, 1.0)
    assert unit.instrument.total == 0.0


@pytest.mark.parametrize(
    "command",
    ["TC 3 5 0 0 10 2", "TC 1 2 0 0 10 2", "TC 1 5 4 0 10 2", "TC 1 5 0 0 6 2", "TC 1 5 0 0 7 7"],
)
def test_impossible_settings_are_refused(command: str) -> None:
    assert MassFlowController("A").answer(command) == ["?"]


def test_instruments_count_what_they_measure() -> None:
    assert LiquidMeter("A").answer("TC 1 4 0 0 10 2") == ["A 1 4 0 0 10 2"]
    assert LiquidMeter("A").answer("TC 1 5 0 0 10 2") == ["?"]
    assert PressureController("A").answer("TC 1 5 0 0 10 2") == ["?"]


def test_second_batch_closes_the_valve_too() -> None:
    clock = Clock()
    unit = MassFlowController("A", tau=0.0, clock=clock)
    unit.answer("LS 60")
    unit.answer("TB 1 10")
    assert unit.answer("TB 2 4") == ["A 2 4.00 3 SmL"]
    clock.now = 6.0
    assert unit.process_value == 0.0
    assert unit.instrument.batch_remaining(1) == pytest.approx(6.0)
    unit.answer("TB 2 0")
    clock.now = 8.0
    assert unit.process_value == 60.0
    clock.now = 20.0
    assert unit.process_value == 0.0
    assert unit.instrument.batch_remaining(1) == pytest.approx(0.0)
