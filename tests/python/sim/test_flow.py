"""The flow's answer to its setpoint, on an injected clock."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sim import MassFlowController
from penstock.sim._physics.flow import FlowControlLoop, ValveHold, volumetric_flow


def test_flow_covers_63_percent_of_a_step_after_one_time_constant() -> None:
    now = [0.0]
    unit = MassFlowController("A", full_scale=500.0, tau=0.3, clock=lambda: now[0])
    unit.answer("LS 100")
    now[0] += 0.3
    assert unit.mass_flow == pytest.approx(100.0 * (1.0 - math.exp(-1.0)))
    assert unit.answer("DV 1 5") == ["+063.21"]


@given(
    steps=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=30),
    ramp=st.sampled_from([0.0, 5.0, 80.0]),
)
def test_the_curve_does_not_depend_on_how_often_it_is_looked_at(
    steps: list[float], ramp: float
) -> None:
    once = FlowControlLoop(tau=0.4, ramp=ramp)
    often = FlowControlLoop(tau=0.4, ramp=ramp)
    for loop in (once, often):
        loop.advance(0.0)
        loop.requested = 100.0
    now = 0.0
    for step in steps:
        now += step
        often.advance(now)
    once.advance(now)
    assert often.flow == pytest.approx(once.flow, abs=1e-9)
    assert often.active == pytest.approx(once.active, abs=1e-9)
    assert 0.0 <= once.flow <= 100.0


def test_a_long_ramp_is_followed_one_time_constant_behind() -> None:
    loop = FlowControlLoop(tau=0.5, ramp=10.0)
    loop.advance(0.0)
    loop.requested = 100.0
    loop.advance(6.0)
    assert loop.active == pytest.approx(60.0)
    assert loop.flow == pytest.approx(60.0 - 10.0 * 0.5, abs=1e-3)


def test_a_step_back_in_time_changes_nothing() -> None:
    loop = FlowControlLoop(tau=0.5, requested=10.0)
    loop.advance(5.0)
    loop.advance(6.0)
    before = loop.flow
    loop.advance(5.5)
    assert loop.flow == before


def test_zero_time_constant_follows_at_once() -> None:
    loop = FlowControlLoop(tau=0.0)
    loop.advance(0.0)
    loop.requested = 7.0
    loop.advance(0.0)
    assert loop.flow == 7.0
    loop.hold = ValveHold.CLOSED
    loop.advance(0.0)
    assert loop.flow == 0.0


def test_volumetric_flow_is_the_mass_flow_at_standard_conditions() -> None:
    assert volumetric_flow(10.0, pressure_psia=14.696, celsius=25.0) == pytest.approx(10.0)
    assert volumetric_flow(10.0, pressure_psia=0.0, celsius=25.0) == 0.0
