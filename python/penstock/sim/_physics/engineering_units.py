"""The engineering units that a simulated instrument can show, by the codes of the wire.

A code means different units for different quantities: 7 is SLPM, LPM or bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["UNITS", "Dimension", "EngineeringUnit", "unit_named"]


class Dimension(Enum):
    """What a unit measures."""

    STANDARD_FLOW = "standard flow"
    VOLUMETRIC_FLOW = "volumetric flow"
    TRUE_MASS_FLOW = "true mass flow"
    ABSOLUTE_PRESSURE = "absolute pressure"
    GAUGE_PRESSURE = "gauge pressure"
    DIFFERENTIAL_PRESSURE = "differential pressure"
    TEMPERATURE = "temperature"


@dataclass(frozen=True, slots=True)
class EngineeringUnit:
    """One unit: its code on the wire, its label, and its size in the dimension's first unit."""

    code: int
    label: str
    size: float
    #: The reading in this unit of a value that is 0 in the first unit.
    zero: float = 0.0

    def shown(self, value: float, delivered: EngineeringUnit) -> float:
        """``value``, which is in ``delivered``, in this unit."""
        if self is delivered:
            return value
        return (value - delivered.zero) * delivered.size / self.size + self.zero


def _pressures(reference: str) -> tuple[EngineeringUnit, ...]:
    return tuple(
        EngineeringUnit(code, label + reference, psi)
        for code, label, psi in (
            (10, "PSI", 1.0),
            (7, "bar", 14.503774),
            (4, "kPa", 0.14503774),
            (6, "mbar", 0.014503774),
            (13, "torr", 0.01933678),
        )
    )


def _by_code(*units: EngineeringUnit) -> Mapping[int, EngineeringUnit]:
    return {unit.code: unit for unit in units}


UNITS: Final[Mapping[Dimension, Mapping[int, EngineeringUnit]]] = {
    Dimension.STANDARD_FLOW: _by_code(
        EngineeringUnit(12, "SCCM", 1.0),
        EngineeringUnit(7, "SLPM", 1000.0),
        EngineeringUnit(4, "SmL/m", 1.0),
        EngineeringUnit(3, "SmL/s", 60.0),
        EngineeringUnit(6, "SL/s", 60000.0),
    ),
    Dimension.VOLUMETRIC_FLOW: _by_code(
        EngineeringUnit(12, "CCM", 1.0),
        EngineeringUnit(7, "LPM", 1000.0),
        EngineeringUnit(4, "mL/m", 1.0),
        EngineeringUnit(3, "mL/s", 60.0),
        EngineeringUnit(6, "L/s", 60000.0),
    ),
    Dimension.TRUE_MASS_FLOW: _by_code(
        EngineeringUnit(67, "g/m", 1.0),
        EngineeringUnit(65, "mg/m", 0.001),
        EngineeringUnit(66, "g/s", 60.0),
        EngineeringUnit(70, "kg/h", 1000.0 / 60.0),
    ),
    Dimension.ABSOLUTE_PRESSURE: _by_code(*_pressures("A")),
    Dimension.GAUGE_PRESSURE: _by_code(*_pressures("G")),
    Dimension.DIFFERENTIAL_PRESSURE: _by_code(*_pressures("D")),
    Dimension.TEMPERATURE: _by_code(
        EngineeringUnit(2, "`C", 1.0),
        EngineeringUnit(3, "`F", 1.0 / 1.8, 32.0),
        EngineeringUnit(4, "`K", 1.0, 273.15),
    ),
}


def unit_named(label: str, *dimensions: Dimension) -> tuple[Dimension, EngineeringUnit]:
    """The unit with a label, in the first of ``dimensions`` that has it.

    Raises:
        ValueError: none has it; the message lists those that are there.
    """
    for dimension in dimensions:
        for unit in UNITS[dimension].values():
            if unit.label.casefold() == label.casefold():
                return dimension, unit
    known = [unit.label for dimension in dimensions for unit in UNITS[dimension].values()]
    raise ValueError(f"unit {label!r} is not one of {', '.join(known)}")
