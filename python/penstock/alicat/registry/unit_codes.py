"""The numbers of units on the wire, which mean different units for different quantities."""

from __future__ import annotations

from ..errors import UnknownUnitError
from .statistics import Statistic
from .units import Unit

__all__ = ["unit_code"]

_MASS_FLOW: dict[Unit, int] = {
    Unit.SML_S: 3,
    Unit.SML_M: 4,
    Unit.SML_H: 5,
    Unit.SL_S: 6,
    Unit.SLPM: 7,
    Unit.SL_H: 8,
    Unit.SCCS: 11,
    Unit.SCCM: 12,
    Unit.SM3_M: 14,
    Unit.SM3_H: 15,
    Unit.SM3_D: 16,
    Unit.SCFM: 18,
    Unit.SCFH: 19,
    Unit.NML_S: 33,
    Unit.NML_M: 34,
    Unit.NML_H: 35,
    Unit.NL_S: 36,
    Unit.NLPM: 37,
    Unit.NL_H: 38,
    Unit.NCCS: 41,
    Unit.NCCM: 42,
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
    Unit.M3_M: 14,
    Unit.M3_H: 15,
    Unit.M3_D: 16,
    Unit.CFM: 18,
    Unit.CFH: 19,
}
_PRESSURE: dict[Unit, int] = {
    Unit.PA: 2,
    Unit.HPA: 3,
    Unit.KPA: 4,
    Unit.MPA: 5,
    Unit.MBAR: 6,
    Unit.BAR: 7,
    Unit.PSI: 10,
    Unit.PSF: 11,
    Unit.MTORR: 12,
    Unit.TORR: 13,
    Unit.MMHG: 14,
    Unit.INHG: 15,
    Unit.MMH2O: 16,
    Unit.CMH2O: 18,
    Unit.INH2O: 20,
    Unit.ATM: 22,
}
_TEMPERATURE: dict[Unit, int] = {
    Unit.DEG_C: 2,
    Unit.DEG_F: 3,
    Unit.DEG_K: 4,
    Unit.DEG_RA: 5,
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


def _codes_of(statistic: Statistic) -> dict[Unit, int]:
    if statistic is Statistic.MASS_FLOW:
        return _MASS_FLOW
    if statistic in (Statistic.VOL_FLOW, Statistic.VOL_FLOW_EXT):
        return _VOLUMETRIC_FLOW
    if statistic is Statistic.TEMP_STREAM:
        return _TEMPERATURE
    return _PRESSURE if "press" in statistic.value else {}
