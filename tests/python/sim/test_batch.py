"""A batch closes the valve when its volume has passed."""

from __future__ import annotations

import pytest

from penstock.sim import BasisController, MassFlowController


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("step", [0.1, 7.0, 100.0])
def test_flow_ends_when_the_volume_has_passed_however_often_it_is_polled(step: float) -> None:
    clock = Clock()
    unit = MassFlowController("A", tau=0.0, clock=clock)
    unit.answer("LS 120")
    assert unit.answer("TB 1 10") == ["A 1 10.00 3 SmL"]
    while clock.now < 20.0:
        clock.now += step
        unit.answer("")
    assert unit.process_value == 0.0
    assert unit.instrument.total == pytest.approx(10.0, abs=1e-6)
    assert unit.setpoint == 120.0
    assert "HLD" not in unit.answer("")[0]


def test_reset_of_the_total_begins_the_batch_anew() -> None:
    clock = Clock()
    unit = BasisController("A", tau=0.0, clock=clock)
    unit.answer("S 60")
    unit.answer("TB 5")
    clock.now = 2.0
    assert unit.answer("DV 64") == ["A +0000003.0"]
    clock.now = 9.0
    assert unit.answer("DV 64") == ["A +0000000.0"]
    assert unit.process_value == 0.0
    unit.answer("T")
    clock.now = 10.0
    assert unit.process_value == 60.0
    assert unit.answer("DV 64") == ["A +0000004.0"]


def test_volume_of_zero_ends_batching() -> None:
    clock = Clock()
    unit = MassFlowController("A", tau=0.0, clock=clock)
    unit.answer("LS 60")
    unit.answer("TB 1 1")
    clock.now = 5.0
    assert unit.process_value == 0.0
    unit.answer("TB 1 0")
    clock.now = 6.0
    assert unit.process_value == 60.0


def test_closing_takes_the_time_of_the_valve() -> None:
    clock = Clock()
    unit = MassFlowController("A", tau=0.5, clock=clock)
    unit.answer("LS 120")
    unit.answer("TB 1 10")
    clock.now = 60.0
    unit.answer("")
    assert unit.instrument.total == pytest.approx(10.0 + 120 / 60 * 0.5, rel=1e-3)
