"""Gases, units and statistics by number, by name and by what instruments write."""

from __future__ import annotations

import pytest

from penstock.alicat import (
    Gas,
    Statistic,
    Unit,
    UnknownGasError,
    UnknownStatisticError,
    UnknownUnitError,
)
from penstock.alicat.registry.units import code_of_unit, unit_code


def test_gases_have_their_numbers() -> None:
    assert (Gas.AIR.code, Gas.N2.code, Gas.SF6.code, Gas.P_5.code) == (0, 8, 19, 29)
    assert Gas.coerce("n2") is Gas.N2
    assert Gas.coerce(8) is Gas.N2
    assert all(Gas.by_code(gas.code) is gas for gas in Gas)


def test_unknown_gas_names_near_ones() -> None:
    with pytest.raises(UnknownGasError, match="CO2"):
        Gas.coerce("CO22")
    with pytest.raises(UnknownGasError):
        Gas.by_code(999)


@pytest.mark.parametrize(
    ("label", "unit"),
    [
        ("SCCM", Unit.SCCM),
        ("PSIA", Unit.PSI),
        ("PSIG", Unit.PSI),
        ("`C", Unit.DEG_C),
        ("C", Unit.DEG_C),
        ("bar", Unit.BAR),
        ("NLPM", Unit.NLPM),
    ],
)
def test_units_are_known_by_their_labels(label: str, unit: Unit) -> None:
    assert Unit.from_label(label) is unit
    assert Unit.coerce(label) is unit


def test_unknown_unit_is_none_or_refused() -> None:
    assert Unit.from_label("furlong") is None
    with pytest.raises(UnknownUnitError, match="SCCM"):
        Unit.coerce("SCCMM")
    with pytest.raises(UnknownUnitError, match="write it as the instrument does"):
        Unit.coerce("?")


def test_unknown_statistic_tells_how_they_are_named() -> None:
    with pytest.raises(UnknownStatisticError, match="unknown statistic 'nope': name it as"):
        Statistic.coerce("nope")
    with pytest.raises(UnknownStatisticError, match="did you mean"):
        Statistic.coerce("mas flow")


def test_statistics_know_what_they_control() -> None:
    assert Statistic.from_code(37) is Statistic.MASS_FLOW_SETPT
    assert Statistic.MASS_FLOW_SETPT.controlled is Statistic.MASS_FLOW
    assert Statistic.MASS_FLOW.controlled is None
    assert Statistic.coerce("Mass Flow") is Statistic.MASS_FLOW
    assert all(Statistic.by_code(statistic.code) is statistic for statistic in Statistic)
    with pytest.raises(UnknownStatisticError):
        Statistic.coerce("mass_flux_capacitor")


@pytest.mark.parametrize("name", ["Gas", "Statistic", "Unit", "LoopControlVariable"])
def test_members_are_those_that_programs_know(name: str) -> None:
    known = getattr(pytest.importorskip("alicatlib", reason="alicatlib needs CPython 3.13"), name)
    import penstock.alicat

    ours = getattr(penstock.alicat, name)
    assert {member.name: member.value for member in known} == {m.name: m.value for m in ours}
    for member in known:
        if name in ("Gas", "Statistic"):
            assert ours[member.name].code == member.code


@pytest.mark.parametrize("members", [Gas, Statistic])
def test_no_number_is_given_twice(members: type[Gas] | type[Statistic]) -> None:
    assert len({member.code for member in members}) == len(members)


@pytest.mark.parametrize(
    ("text", "gas"),
    [
        ("Nitrogen", Gas.N2),
        ("carbon dioxide", Gas.CO2),
        ("Carbon_Dioxide", Gas.CO2),
        ("R-134a", Gas.R_134A),
        ("n-butane", Gas.NC4H10),
        (255, Gas.MIX_255),
    ],
)
def test_gases_are_known_by_what_people_call_them(text: str | int, gas: Gas) -> None:
    assert Gas.coerce(text) is gas


@pytest.mark.parametrize(
    ("name", "statistic"),
    [
        ("Flow Temp", Statistic.TEMP_STREAM),
        ("Volu Flow", Statistic.VOL_FLOW),
        ("2nd Abs Press", Statistic.ABS_PRESS_SECOND),
        ("Gas", Statistic.FLUID_NAME),
    ],
)
def test_statistics_are_known_by_the_names_of_columns(name: str, statistic: Statistic) -> None:
    assert Statistic.from_name(name) is statistic


@pytest.mark.parametrize(
    ("statistic", "label", "code"),
    [
        (Statistic.MASS_FLOW, "SLPM", 7),
        (Statistic.MASS_FLOW_SETPT, "kg/h", 70),
        (Statistic.VOL_FLOW_AVG, "LPM", 7),
        (Statistic.ABS_PRESS_SECOND, "bar", 7),
        (Statistic.TOT_MASS, "SL", 4),
        (Statistic.TOT_VOL, "m3", 7),
        (Statistic.TEMP_EXT, "K", 4),
        (Statistic.TOTALIZING_TIME, "hour", 6),
    ],
)
def test_number_of_a_unit_depends_on_the_quantity(
    statistic: Statistic, label: str, code: int
) -> None:
    assert unit_code(statistic, label) == code
    assert code_of_unit(statistic, Unit.coerce(label)) == code


def test_quantity_is_not_shown_in_a_unit_of_another_one() -> None:
    assert code_of_unit(Statistic.MASS_FLOW, Unit.BAR) is None
    with pytest.raises(UnknownUnitError):
        unit_code(Statistic.REL_HUM, "SLPM")
