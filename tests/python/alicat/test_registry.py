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


def test_statistics_know_what_they_control() -> None:
    assert Statistic.from_code(37) is Statistic.MASS_FLOW_SETPT
    assert Statistic.MASS_FLOW_SETPT.controlled is Statistic.MASS_FLOW
    assert Statistic.MASS_FLOW.controlled is None
    assert Statistic.coerce("Mass Flow") is Statistic.MASS_FLOW
    assert all(Statistic.by_code(statistic.code) is statistic for statistic in Statistic)
    with pytest.raises(UnknownStatisticError):
        Statistic.coerce("mass_flux_capacitor")
