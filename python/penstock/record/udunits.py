"""Units of instruments in the words of UDUNITS, which CF conventions ask for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["udunits_of"]

_UNITS: Mapping[str, str] = MappingProxyType(
    {
        "°C": "degC",
        "`C": "degC",
        "C": "degC",
        "degC": "degC",
        "°F": "degF",
        "`F": "degF",
        "F": "degF",
        "K": "K",
        "`K": "K",
        "PSI": "psi",
        "PSIA": "psi",
        "PSIG": "psi",
        "PSID": "psi",
        "bar": "bar",
        "barA": "bar",
        "barG": "bar",
        "mbar": "mbar",
        "Pa": "Pa",
        "hPa": "hPa",
        "kPa": "kPa",
        "MPa": "MPa",
        "atm": "atm",
        "torr": "torr",
        # Volumes at standard or normal conditions: the conditions are in the instrument's word.
        "SCCM": "cm3 min-1",
        "SCCS": "cm3 s-1",
        "SLPM": "L min-1",
        "SLM": "L min-1",
        "SLPS": "L s-1",
        "NCCM": "cm3 min-1",
        "NLPM": "L min-1",
        "CCM": "cm3 min-1",
        "CCS": "cm3 s-1",
        "LPM": "L min-1",
        "LPS": "L s-1",
        "SCF": "ft3",
        "SCFM": "ft3 min-1",
        "CFM": "ft3 min-1",
        "mL": "mL",
        "L": "L",
        "SL": "L",
        "SmL": "mL",
        "g": "g",
        "kg": "kg",
        "g/min": "g min-1",
        "%": "percent",
        "V": "V",
        "mV": "mV",
        "A": "A",
        "mA": "mA",
        "W": "W",
        "Hz": "Hz",
        "s": "s",
        "ms": "ms",
        "min": "min",
        "h": "h",
        "m": "m",
        "mm": "mm",
    }
)


def udunits_of(unit: str) -> str | None:
    """The unit of UDUNITS with the same dimension and size; None where none is known."""
    return _UNITS.get(unit)
