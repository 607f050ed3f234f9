"""How ``export`` converts units, and the conditions that flows refer to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli._stored.conversion import UnitError, convert_factor, parse_conditions


@pytest.mark.parametrize(
    ("source", "target", "standard", "to", "value", "expected"),
    [
        ("SCCM", "SLPM", None, None, 1500.0, 1.5),
        ("SLPM", "SLPM", "25C,14.696psia", "0C,1atm", 1.0, 273.15 / 298.15),
        ("NLPM", "SLPM", "25C,1atm", None, 1.0, 298.15 / 273.15),
        ("SLPM", "SCFM", None, None, 28.316846592, 1.0),
        ("CCM", "LPM", None, None, 100.0, 0.1),
        ("PSIA", "kPaA", None, None, 14.695948775, 101.325),
        ("bar", "kPa", None, None, 1.0, 100.0),
        ("`C", "`F", None, None, 100.0, 212.0),
        ("C", "K", None, None, 25.0, 298.15),
    ],
)
def test_units_convert(
    source: str, target: str, standard: str | None, to: str | None, value: float, expected: float
) -> None:
    factor, summand = convert_factor(
        source,
        target,
        standard=parse_conditions(standard) if standard else None,
        to=parse_conditions(to) if to else None,
    )
    assert value * factor + summand == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("source", "target"), [("PSIA", "PSIG"), ("SCCM", "CCM"), ("SCCM", "kPa"), ("x", "y")]
)
def test_units_of_different_quantities_do_not_convert(source: str, target: str) -> None:
    with pytest.raises(UnitError):
        convert_factor(source, target, standard=parse_conditions("25C,1atm"))


@given(st.text(max_size=30))
def test_any_text_is_conditions_or_refused(text: str) -> None:
    try:
        conditions = parse_conditions(text)
    except UnitError:
        return
    assert conditions.kelvins > 0
    assert conditions.pascals > 0
