"""Engineering units, by the labels that instruments write beside their values.

A unit code means different units for different quantities (7 is SLPM, LPM or bar), so the label
is what identifies a unit; the code is only half of a key.
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum

from ..errors import UnknownUnitError

__all__ = ["Unit", "clean_unit_label"]


class Unit(StrEnum):
    """A unit; the value is its usual spelling."""

    # standardised (S) and normalised (N) gas flow
    SML_S = "SmL/s"
    SML_M = "SmL/m"
    SML_H = "SmL/h"
    SL_S = "SL/s"
    SLPM = "SLPM"
    SL_H = "SL/h"
    SCCS = "SCCS"
    SCCM = "SCCM"
    SM3_M = "Sm³/m"
    SM3_H = "Sm³/h"
    SM3_D = "Sm³/d"
    SCFM = "SCFM"
    SCFH = "SCFH"
    NML_S = "NmL/s"
    NML_M = "NmL/m"
    NML_H = "NmL/h"
    NL_S = "NL/s"
    NLPM = "NLPM"
    NL_H = "NL/h"
    NCCS = "NCCS"
    NCCM = "NCCM"
    NM3_M = "Nm³/m"
    NM3_H = "Nm³/h"
    NM3_D = "Nm³/d"
    # true mass flow
    MG_S = "mg/s"
    MG_M = "mg/m"
    G_S = "g/s"
    G_M = "g/m"
    G_H = "g/h"
    KG_M = "kg/m"
    KG_H = "kg/h"
    OZ_S = "oz/s"
    OZ_M = "oz/m"
    LB_M = "lb/m"
    LB_H = "lb/h"
    # volumetric flow
    UL_M = "μL/m"
    ML_S = "mL/s"
    ML_M = "mL/m"
    ML_H = "mL/h"
    L_S = "L/s"
    LPM = "LPM"
    L_H = "L/h"
    US_GPM = "US GPM"
    US_GPH = "US GPH"
    CCS = "CCS"
    CCM = "CCM"
    M3_M = "m³/m"
    M3_H = "m³/h"
    M3_D = "m³/d"
    CFM = "CFM"
    CFH = "CFH"
    # pressure
    PA = "Pa"
    HPA = "hPa"
    KPA = "kPa"
    MPA = "MPa"
    MBAR = "mbar"
    BAR = "bar"
    PSI = "PSI"
    PSF = "PSF"
    MTORR = "mTorr"
    TORR = "torr"
    MMHG = "mmHg"
    INHG = "inHg"
    MMH2O = "mmH2O"
    CMH2O = "cmH2O"
    INH2O = "inH2O"
    ATM = "atm"
    # temperature
    DEG_C = "°C"
    DEG_F = "°F"
    DEG_K = "°K"
    DEG_RA = "°Ra"

    @classmethod
    def from_label(cls, label: str) -> Unit | None:
        """The unit that an instrument's label names, or ``None`` for one not listed here.

        The letter after a pressure (PSIA, PSIG, PSID) tells absolute, gauge or differential and
        is no part of the unit.
        """
        return _BY_LABEL.get(clean_unit_label(label).casefold())

    @classmethod
    def coerce(cls, value: Unit | str) -> Unit:
        """A unit from itself or from a label in any case.

        Raises:
            UnknownUnitError: nothing matches; the error suggests near names.
        """
        if isinstance(value, Unit):
            return value
        unit = cls.from_label(value)
        if unit is None:
            near = get_close_matches(value.strip().casefold(), _BY_LABEL, n=3)
            raise UnknownUnitError(value, suggestions=tuple(_BY_LABEL[n].value for n in near))
        return unit


def clean_unit_label(label: str) -> str:
    """A label as people write it: the display's degree sign is a backtick on the wire."""
    return label.strip().replace("`", "°")


_BY_LABEL: dict[str, Unit] = {unit.value.casefold(): unit for unit in Unit}
for _pressure in (Unit.PSI, Unit.BAR, Unit.MBAR, Unit.PA, Unit.HPA, Unit.KPA, Unit.TORR):
    for _reference in "agd":
        _BY_LABEL.setdefault(f"{_pressure.value.casefold()}{_reference}", _pressure)
for _letter, _degree in (("c", Unit.DEG_C), ("f", Unit.DEG_F), ("k", Unit.DEG_K)):
    _BY_LABEL.setdefault(_letter, _degree)
