"""The codes of the wire for gases and for engineering units.

Numbers and names of gases are those that Alicat publishes for its standard gas calibrations: pure
gases 0 to 36 and 80 to 86, refrigerants 100 to 117, mixtures 140 to 206, deuterium 210.

The code of a unit means different units for different quantities: 7 is SLPM, LPM or bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


@dataclass(frozen=True, slots=True)
class SimulatedGas:
    """One row of the table; ``short`` is the name in data frames and ``??G*``, up to 6 letters."""

    number: int
    short: str
    long: str


_PURE: Final = (
    "0 Air Air|1 Ar Argon|2 CH4 Methane|3 CO Carbon Monoxide|4 CO2 Carbon Dioxide|5 C2H6 Ethane"
    "|6 H2 Hydrogen|7 He Helium|8 N2 Nitrogen|9 N2O Nitrous Oxide|10 Ne Neon|11 O2 Oxygen"
    "|12 C3H8 Propane|13 nC4H10 Normal Butane|14 C2H2 Acetylene|15 C2H4 Ethylene"
    "|16 iC4H10 Isobutane|17 Kr Krypton|18 Xe Xenon|19 SF6 Sulfur Hexafluoride"
    "|20 C-25 25% CO2, 75% Ar|21 C-10 10% CO2, 90% Ar|22 C-8 8% CO2, 92% Ar"
    "|23 C-2 2% CO2, 98% Ar|24 C-75 75% CO2, 25% Ar|25 He-25 25% He, 75% Ar"
    "|26 He-75 75% He, 25% Ar|27 A1025 90% He, 7.5% Ar, 2.5% CO2|28 Star29 Stargon CS"
    "|29 P-5 5% CH4, 95% Ar|30 NO Nitric Oxide|31 NF3 Nitrogen Trifluoride|32 NH3 Ammonia"
    "|33 Cl2 Chlorine|34 H2S Hydrogen Sulfide|35 SO2 Sulfur Dioxide|36 C3H6 Propylene"
    "|80 1Buten 1-Butylene|81 cButen Cis-Butene|82 iButen Isobutene|83 tButen Trans-2-Butene"
    "|84 COS Carbonyl Sulfide|85 DME Dimethylether|86 SiH4 Silane"
)
_REFRIGERANTS: Final = (
    "100 R-11 Trichlorofluoromethane|101 R-115 Chloropentafluoroethane|102 R-116 Hexafluoroethane"
    "|103 R-124 Chlorotetrafluoroethane|104 R-125 Pentafluoroethane|105 R-134A Tetrafluoroethane"
    "|106 R-14 Tetrafluoromethane|107 R-142b Chlorodifluoroethane|108 R-143a Trifluoroethane"
    "|109 R-152a Difluoroethane|110 R-22 Difluoromonochloromethane|111 R-23 Trifluoromethane"
    "|112 R-32 Difluoromethane|113 R-318 Octafluorocyclobutane"
    "|114 R-404A 44% R-125, 4% R-134A, 52% R-143A|115 R-407C 23% R-32, 25% R-125, 52% R-143A"
    "|116 R-410A 50% R-32, 50% R-125|117 R-507A 50% R-125, 50% R-143A"
)
_MIXTURES: Final = (
    "140 C-15 15% CO2, 85% Ar|141 C-20 20% CO2, 80% Ar|142 C-50 50% CO2, 50% Ar"
    "|143 He-50 50% He, 50% Ar|144 He-90 90% He, 10% Ar"
    + "".join(
        f"|{144 + step} Bio{5 * step}M {5 * step}% CH4, {100 - 5 * step}% CO2"
        for step in range(1, 20)
    )
    + "|164 EAN-32 32% O2, 68% N2|165 EAN-36 36% O2, 64% N2|166 EAN-40 40% O2, 60% N2"
    "|167 HeOx20 20% O2, 80% He|168 HeOx21 21% O2, 79% He|169 HeOx30 30% O2, 70% He"
    "|170 HeOx40 40% O2, 60% He|171 HeOx50 50% O2, 50% He|172 HeOx60 60% O2, 40% He"
    "|173 HeOx80 80% O2, 20% He|174 HeOx99 99% O2, 1% He|175 EA-40 Enriched Air-40% O2"
    "|176 EA-60 Enriched Air-60% O2|177 EA-80 Enriched Air-80% O2|178 Metab Metabolic Exhalant"
    "|179 LG-4.5 4.5% CO2, 13.5% N2, 82% He|180 LG-6 6% CO2, 14% N2, 80% He"
    "|181 LG-7 7% CO2, 14% N2, 79% He|182 LG-9 9% CO2, 15% N2, 76% He|183 HeNe-9 9% Ne, 91% He"
    "|184 LG-9.4 9.4% CO2, 19.25% N2, 71.35% He|185 SynG-1 40% H2, 29% CO, 20% CO2, 11% CH4"
    "|186 SynG-2 64% H2, 28% CO, 1% CO2, 7% CH4|187 SynG-3 70% H2, 4% CO, 25% CO2, 1% CH4"
    "|188 SynG-4 83% H2, 14% CO, 3% CH4|189 NatG-1 93% CH4, 3% C2H6, 1% C3H8, 2% N2, 1% CO2"
    "|190 NatG-2 95% CH4, 3% C2H6, 1% N2, 1% CO2"
    "|191 NatG-3 95.2% CH4, 2.5% C2H6, 0.2% C3H8, 0.1% C4H10, 1.3% N2, 0.7% CO2"
    "|192 CoalG 50% H2, 35% CH4, 10% CO, 5% C2H4|193 Endo 75% H2, 25% N2"
    "|194 HHO 66.67% H2, 33.33% O2|195 HD-5 LPG: 96.1% C3H8, 1.5% C2H6, 0.4% C3H6, 1.9% n-C4H10"
    "|196 HD-10 LPG: 85% C3H8, 10% C3H6, 5% n-C4H10|197 OCG-89 89% O2, 7% N2, 4% Ar"
    "|198 OCG-93 93% O2, 3% N2, 4% Ar|199 OCG-95 95% O2, 1% N2, 4% Ar"
    "|200 FG-1 2.5% O2, 10.8% CO2, 85.7% N2, 1% Ar|201 FG-2 2.9% O2, 14% CO2, 82.1% N2, 1% Ar"
    "|202 FG-3 3.7% O2, 15% CO2, 80.3% N2, 1% Ar|203 FG-4 7% O2, 12% CO2, 80% N2, 1% Ar"
    "|204 FG-5 10% O2, 9.5% CO2, 79.5% N2, 1% Ar|205 FG-6 13% O2, 7% CO2, 79% N2, 1% Ar"
    "|206 P-10 10% CH4, 90% Ar|210 D-2 Deuterium"
)


def _parse(table: str) -> tuple[SimulatedGas, ...]:
    rows = (entry.split(" ", 2) for entry in table.split("|"))
    return tuple(SimulatedGas(int(number), short, long) for number, short, long in rows)


GASES: Final[tuple[SimulatedGas, ...]] = _parse("|".join((_PURE, _REFRIGERANTS, _MIXTURES)))
GASES_BY_NUMBER: Final[dict[int, SimulatedGas]] = {gas.number: gas for gas in GASES}

#: Dynamic viscosity at 25 degrees Celsius in micropoise, of the gases that laboratories use most.
_VISCOSITIES: Final = {
    0: 184.9, 1: 225.9, 2: 111.8, 3: 176.5, 4: 149.3, 5: 93.5, 6: 89.2, 7: 198.5, 8: 178.0,
    9: 148.5, 10: 311.1, 11: 204.6, 12: 81.5, 17: 251.3, 18: 229.9, 19: 153.5,
}  # fmt: skip


def viscosity_ratio(flowing: int, selected: int) -> float:
    """The reading of a laminar-flow sensor for one unit of flow while another gas is selected.

    1.0 where the viscosity of either gas is not in the table.
    """
    if flowing == selected or flowing not in _VISCOSITIES or selected not in _VISCOSITIES:
        return 1.0
    return _VISCOSITIES[flowing] / _VISCOSITIES[selected]


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
