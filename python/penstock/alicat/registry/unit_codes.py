"""The numbers of units on the wire, which mean different units for different quantities."""

from __future__ import annotations

from penstock.alicat.errors import UnknownUnitError
from penstock.alicat.registry.statistics import Statistic
from penstock.alicat.registry.units import Unit

__all__ = ["code_of_unit", "unit_code"]

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
