"""A flow controller that is set to control its pressure, and back."""

from __future__ import annotations

import pytest

from penstock.sim import MassFlowController


def controller() -> MassFlowController:
    return MassFlowController("A", tau=0.0, clock=lambda: 0.0)


def test_pressure_follows_the_setpoint_and_gas_flows_while_it_is_above_ambient() -> None:
    unit = controller()
    assert unit.answer("W122=34") == ["A   122 = 34"]
    assert unit.answer("FPF 34") == ["A +160.00 10 PSIA"]
    assert unit.answer("LS 87.31") == ["A +014.62 +087.31 10 PSIA"]
    unit.instrument.advance(1.0)
    assert unit.answer("") == ["A +087.31 +021.89 +041.64 +250.00 +087.31     N2"]
    assert unit.answer("LS 160.1") == ["?"]


def test_setpoint_starts_where_the_instrument_is() -> None:
    unit = controller()
    unit.answer("LV 34")
    assert unit.answer("") == ["A +014.62 +021.89 +000.00 +000.00 +014.62     N2"]
    unit.answer("LS 87.31")
    unit.instrument.advance(1.0)
    unit.answer("LV 37")
    assert unit.answer("LS") == ["A +250.00 +250.00 12 SCCM"]
    assert unit.answer("")[0].startswith("A +014.62")


def test_setpoint_is_in_the_unit_that_is_shown() -> None:
    unit = controller()
    unit.answer("LV 34")
    assert unit.answer("DCU 34 7") == ["A 7 barA"]
    unit.answer("LS 6.02")
    unit.instrument.advance(1.0)
    assert unit.pressure == pytest.approx(6.02 * 14.503774)
    assert unit.answer("")[0].startswith("A +006.02")


def test_loss_of_power_leaves_the_ambient_pressure() -> None:
    unit = controller()
    unit.answer("LV 34")
    unit.answer("LS 100")
    unit.instrument.advance(1.0)
    unit.reboot(1.0, 0.0)
    assert unit.pressure == pytest.approx(14.62)


def test_flow_controller_has_no_differential_pressure_to_control() -> None:
    assert controller().answer("LV 39") == ["?"]
