"""Engineering units, by the labels that instruments write beside their values.

A unit code means different units for different quantities (7 is SLPM, LPM or bar), so the label
is what identifies a unit; the code is only half of a key.
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum

from penstock.alicat.errors import UnknownUnitError
from penstock.alicat.registry.statistics import Statistic

__all__ = [
    "Unit",
    "are_same_unit",
    "clean_unit_label",
    "code_of_unit",
    "stated_label",
    "unit_code",
    "unit_number",
]


class Unit(StrEnum):
    """A unit; the value is its usual spelling."""

    # without a dimension
    DEFAULT = "default"
    UNKNOWN = "unknown"
    COUNT = "count"
    PERCENT = "%"
    # standardised (S) and normalised (N) gas flow
    SUL_M = "SμL/m"
    SML_S = "SmL/s"
    SML_M = "SmL/m"
    SML_H = "SmL/h"
    SL_S = "SL/s"
    SLPM = "SLPM"
    SL_H = "SL/h"
    SCCS = "SCCS"
    SCCM = "SCCM"
    SCM3_H = "Scm³/h"
    SM3_M = "Sm³/m"
    SM3_H = "Sm³/h"
    SM3_D = "Sm³/d"
    SIN3_M = "Sin³/m"
    SCFM = "SCFM"
    SCFH = "SCFH"
    KSCFM = "kSCFM"
    SCFD = "SCFD"
    NUL_M = "NμL/m"
    NML_S = "NmL/s"
    NML_M = "NmL/m"
    NML_H = "NmL/h"
    NL_S = "NL/s"
    NLPM = "NLPM"
    NL_H = "NL/h"
    NCCS = "NCCS"
    NCCM = "NCCM"
    NCM3_H = "Ncm³/h"
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
    # standardised and normalised totals
    SUL = "SμL"
    SML = "SmL"
    SL = "SL"
    SCM3 = "Scm³"
    SM3 = "Sm³"
    SIN3 = "Sin³"
    SFT3 = "Sft³"
    KSFT3 = "kSft³"
    NUL = "NμL"
    NML = "NmL"
    NL = "NL"
    NCM3 = "Ncm³"
    NM3 = "Nm³"
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
    CM3_H = "cm³/h"
    M3_M = "m³/m"
    M3_H = "m³/h"
    M3_D = "m³/d"
    IN3_M = "in³/m"
    CFM = "CFM"
    CFH = "CFH"
    CFD = "CFD"
    # totals
    UL = "μL"
    ML = "mL"
    L = "L"
    US_GAL = "US GAL"
    CM3 = "cm³"
    M3 = "m³"
    IN3 = "in³"
    FT3 = "ft³"
    UP = "μP"
    # pressure
    PA = "Pa"
    HPA = "hPa"
    KPA = "kPa"
    MPA = "MPa"
    MBAR = "mbar"
    BAR = "bar"
    G_CM2 = "g/cm²"
    KG_CM2 = "kg/cm²"
    PSI = "PSI"
    PSF = "PSF"
    MTORR = "mTorr"
    TORR = "torr"
    MMHG = "mmHg"
    INHG = "inHg"
    MMH2O = "mmH2O"
    MMH2O_60F = "mmH2O@60F"
    CMH2O = "cmH2O"
    CMH2O_60F = "cmH2O@60F"
    INH2O = "inH2O"
    INH2O_60F = "inH2O@60F"
    ATM = "atm"
    V = "V"
    # temperature
    DEG_C = "°C"
    DEG_F = "°F"
    DEG_K = "°K"
    DEG_RA = "°Ra"
    # time
    H_M_S = "h:m:s"
    MS = "ms"
    S = "s"
    M = "m"
    HOUR = "hour"
    DAY = "day"

    @classmethod
    def from_label(cls, label: str) -> Unit | None:
        """The unit that an instrument's label names, or ``None`` for one not listed here.

        The letter after a pressure (PSIA, PSIG, PSID) says absolute, gauge or differential. It
        is not part of the unit.
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


def stated_label(unit: Unit | str, own: str | None = None) -> str:
    """The label of a unit that a caller states. PSIG keeps its G.

    Args:
        unit: The unit.
        own: The label of the instrument's own unit, which may be one that the registry lacks.

    Raises:
        UnknownUnitError: there is no such unit; the error suggests near names.
    """
    if own is not None and are_same_unit(unit, own):
        return own
    known = Unit.coerce(unit)
    return known.value if isinstance(unit, Unit) else clean_unit_label(unit)


def are_same_unit(one: str, other: str) -> bool:
    """Whether two labels mean the same unit.

    PSI may be PSIA or PSIG, but these two are not the same: their zeros differ.
    """
    one, other = (clean_unit_label(label).casefold() for label in (one, other))
    first, second = _BY_LABEL.get(one), _BY_LABEL.get(other)
    if first is None or second is None:
        return one == other
    if first is not second:
        return False
    references = {_REFERENCES.get(one, ""), _REFERENCES.get(other, "")} - {""}
    return len(references) < 2


# Other spellings, among them those of instruments whose display has no ³, ² or μ.
_ALIASES: dict[Unit, tuple[str, ...]] = {
    Unit.UNKNOWN: ("---",),
    Unit.PERCENT: (
        "percent",
        "pct",
    ),
    Unit.SUL_M: ("SuL/m",),
    Unit.SLPM: ("SL/m",),
    Unit.SCM3_H: ("Scm3/h",),
    Unit.SM3_M: ("Sm3/m",),
    Unit.SM3_H: ("Sm3/h",),
    Unit.SM3_D: ("Sm3/d",),
    Unit.SIN3_M: ("Sin3/m",),
    Unit.NUL_M: ("NuL/m",),
    Unit.NLPM: ("NL/m",),
    Unit.NCM3_H: ("Ncm3/h",),
    Unit.NM3_M: ("Nm3/m",),
    Unit.NM3_H: ("Nm3/h",),
    Unit.NM3_D: ("Nm3/d",),
    Unit.SUL: ("SuL",),
    Unit.SCM3: ("Scm3",),
    Unit.SM3: ("Sm3",),
    Unit.SIN3: ("Sin3",),
    Unit.SFT3: ("Sft3",),
    Unit.KSFT3: ("kSft3",),
    Unit.NUL: ("NuL",),
    Unit.NCM3: ("Ncm3",),
    Unit.NM3: ("Nm3",),
    Unit.UL_M: ("uL/m",),
    Unit.LPM: ("L/m",),
    Unit.US_GPM: ("GPM",),
    Unit.US_GPH: ("GPH",),
    Unit.CM3_H: ("cm3/h",),
    Unit.M3_M: ("m3/m",),
    Unit.M3_H: ("m3/h",),
    Unit.M3_D: ("m3/d",),
    Unit.IN3_M: ("in3/m",),
    Unit.UL: (
        "uL",
        "microliter",
    ),
    Unit.ML: ("milliliter",),
    Unit.L: ("liter",),
    Unit.US_GAL: (
        "GAL",
        "gallon",
    ),
    Unit.CM3: ("cm3",),
    Unit.M3: ("m3",),
    Unit.IN3: ("in3",),
    Unit.FT3: ("ft3",),
    Unit.UP: (
        "uP",
        "micropoise",
    ),
    Unit.PA: ("pascal",),
    Unit.HPA: ("hectopascal",),
    Unit.KPA: ("kilopascal",),
    Unit.MPA: ("megapascal",),
    Unit.MBAR: ("millibar",),
    Unit.G_CM2: ("g/cm2",),
    Unit.KG_CM2: (
        "kg/cm2",
        "kg/cm",
    ),
    Unit.MTORR: ("millitorr",),
    Unit.MMH2O: ("mmH₂O",),
    Unit.CMH2O: ("cmH₂O",),
    Unit.INH2O: ("inH₂O",),
    Unit.ATM: ("atmosphere",),
    Unit.V: ("volt",),
    Unit.DEG_C: ("Celsius",),
    Unit.DEG_F: ("Fahrenheit",),
    Unit.DEG_K: ("Kelvin",),
    Unit.DEG_RA: (
        "Ra",
        "Rankine",
    ),
    Unit.H_M_S: ("hours:minutes:seconds",),
    Unit.MS: ("millisecond",),
    Unit.S: (
        "sec",
        "second",
    ),
    Unit.M: ("minute",),
    Unit.HOUR: ("hr",),
}
_BY_LABEL: dict[str, Unit] = {
    alias.casefold(): unit for unit, aliases in _ALIASES.items() for alias in aliases
} | {unit.value.casefold(): unit for unit in Unit}
#: Absolute, gauge or differential: the last letter of a label of a pressure.
_REFERENCES: dict[str, str] = {}
for _pressure in (Unit.PSI, Unit.BAR, Unit.MBAR, Unit.PA, Unit.HPA, Unit.KPA, Unit.TORR):
    for _reference in "agd":
        _label = f"{_pressure.value.casefold()}{_reference}"
        if _BY_LABEL.setdefault(_label, _pressure) is _pressure:
            _REFERENCES[_label] = _reference
for _letter, _degree in (("c", Unit.DEG_C), ("f", Unit.DEG_F), ("k", Unit.DEG_K)):
    _BY_LABEL.setdefault(_letter, _degree)


_MASS_FLOW: dict[Unit, int] = {
    Unit.COUNT: 62,
    Unit.PERCENT: 63,
    Unit.SUL_M: 2,
    Unit.SML_S: 3,
    Unit.SML_M: 4,
    Unit.SML_H: 5,
    Unit.SL_S: 6,
    Unit.SLPM: 7,
    Unit.SL_H: 8,
    Unit.SCCS: 11,
    Unit.SCCM: 12,
    Unit.SCM3_H: 13,
    Unit.SM3_M: 14,
    Unit.SM3_H: 15,
    Unit.SM3_D: 16,
    Unit.SIN3_M: 17,
    Unit.SCFM: 18,
    Unit.SCFH: 19,
    Unit.KSCFM: 20,
    Unit.SCFD: 21,
    Unit.NUL_M: 32,
    Unit.NML_S: 33,
    Unit.NML_M: 34,
    Unit.NML_H: 35,
    Unit.NL_S: 36,
    Unit.NLPM: 37,
    Unit.NL_H: 38,
    Unit.NCCS: 41,
    Unit.NCCM: 42,
    Unit.NCM3_H: 43,
    Unit.NM3_M: 44,
    Unit.NM3_H: 45,
    Unit.NM3_D: 46,
    Unit.MG_S: 64,
    Unit.MG_M: 65,
    Unit.G_S: 66,
    Unit.G_M: 67,
    Unit.G_H: 68,
    Unit.KG_M: 69,
    Unit.KG_H: 70,
    Unit.OZ_S: 71,
    Unit.OZ_M: 72,
    Unit.LB_M: 73,
    Unit.LB_H: 74,
}
_VOLUMETRIC_FLOW: dict[Unit, int] = {
    Unit.COUNT: 62,
    Unit.PERCENT: 63,
    Unit.UL_M: 2,
    Unit.ML_S: 3,
    Unit.ML_M: 4,
    Unit.ML_H: 5,
    Unit.L_S: 6,
    Unit.LPM: 7,
    Unit.L_H: 8,
    Unit.US_GPM: 9,
    Unit.US_GPH: 10,
    Unit.CCS: 11,
    Unit.CCM: 12,
    Unit.CM3_H: 13,
    Unit.M3_M: 14,
    Unit.M3_H: 15,
    Unit.M3_D: 16,
    Unit.IN3_M: 17,
    Unit.CFM: 18,
    Unit.CFH: 19,
    Unit.CFD: 21,
}
_PRESSURE: dict[Unit, int] = {
    Unit.COUNT: 62,
    Unit.PERCENT: 63,
    Unit.PA: 2,
    Unit.HPA: 3,
    Unit.KPA: 4,
    Unit.MPA: 5,
    Unit.MBAR: 6,
    Unit.BAR: 7,
    Unit.G_CM2: 8,
    Unit.KG_CM2: 9,
    Unit.PSI: 10,
    Unit.PSF: 11,
    Unit.MTORR: 12,
    Unit.TORR: 13,
    Unit.MMHG: 14,
    Unit.INHG: 15,
    Unit.MMH2O: 16,
    Unit.MMH2O_60F: 17,
    Unit.CMH2O: 18,
    Unit.CMH2O_60F: 19,
    Unit.INH2O: 20,
    Unit.INH2O_60F: 21,
    Unit.ATM: 22,
    Unit.V: 61,
}
_TEMPERATURE: dict[Unit, int] = {
    Unit.DEG_C: 2,
    Unit.DEG_F: 3,
    Unit.DEG_K: 4,
    Unit.DEG_RA: 5,
}
_TOTAL_MASS: dict[Unit, int] = {
    Unit.SUL: 2,
    Unit.SML: 3,
    Unit.SL: 4,
    Unit.SCM3: 6,
    Unit.SM3: 7,
    Unit.SIN3: 8,
    Unit.SFT3: 9,
    Unit.KSFT3: 10,
    Unit.NUL: 32,
    Unit.NML: 33,
    Unit.NL: 34,
    Unit.NCM3: 36,
    Unit.NM3: 37,
}
_TOTAL_VOLUME: dict[Unit, int] = {
    Unit.UL: 2,
    Unit.ML: 3,
    Unit.L: 4,
    Unit.US_GAL: 5,
    Unit.CM3: 6,
    Unit.M3: 7,
    Unit.IN3: 8,
    Unit.FT3: 9,
}
_TIME: dict[Unit, int] = {
    Unit.H_M_S: 2,
    Unit.MS: 3,
    Unit.S: 4,
    Unit.M: 5,
    Unit.HOUR: 6,
    Unit.DAY: 7,
}


def unit_code(statistic: Statistic, unit: Unit | str) -> int:
    """The number of ``unit`` where ``statistic`` is shown in it.

    Raises:
        UnknownUnitError: there is no such unit, or that quantity is not shown in it.
    """
    wanted = Unit.coerce(unit)
    codes = _codes_of(statistic.controlled or statistic)
    code = codes.get(wanted)
    if code is None:
        raise UnknownUnitError(
            wanted.value, suggestions=tuple(other.value for other in list(codes)[:3])
        )
    return code


def unit_number(unit: Unit | str | int, *statistics: Statistic) -> int:
    """The number of a unit that may be named by its number, or by its name.

    Its name counts for the first of ``statistics`` that is shown in it.

    Raises:
        UnknownUnitError: there is no such unit, or none of them is shown in it.
    """
    if isinstance(unit, int):
        return unit
    wanted = Unit.coerce(unit)
    *others, last = statistics
    numbers = (code_of_unit(statistic, wanted) for statistic in others)
    found = next((number for number in numbers if number is not None), None)
    return unit_code(last, wanted) if found is None else found


def code_of_unit(statistic: Statistic, unit: Unit) -> int | None:
    """The same, or ``None`` where that quantity is not known to be shown in it."""
    return _codes_of(statistic.controlled or statistic).get(unit)


def _codes_of(statistic: Statistic) -> dict[Unit, int]:
    name = statistic.value
    return next((codes for part, codes in _BY_PART_OF_NAME if part in name), {})


_BY_PART_OF_NAME = (
    ("time", _TIME),
    ("tot_mass", _TOTAL_MASS),
    ("batch_mass", _TOTAL_MASS),
    ("tot_vol", _TOTAL_VOLUME),
    ("batch_vol", _TOTAL_VOLUME),
    ("mass_flow", _MASS_FLOW),
    ("vol_flow", _VOLUMETRIC_FLOW),
    ("press", _PRESSURE),
    ("temp", _TEMPERATURE),
)
