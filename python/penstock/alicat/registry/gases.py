"""Gases, by the short names that data frames carry and the numbers that gas commands take.

The thirty pure gases and mixes that every instrument has, and the chemically aggressive ones
of corrosion-resistant models. Instruments also hold mixes of their own (numbers 236 to 255,
named by their users), so a gas name in a frame need not be one of these.
"""

from __future__ import annotations

from enum import StrEnum

from ..errors import UnknownGasError
from .lookup import Registry

__all__ = ["Gas"]


class Gas(StrEnum):
    """A gas; the value is its name on the wire."""

    AIR = "Air"
    AR = "Ar"
    CH4 = "CH4"
    CO = "CO"
    CO2 = "CO2"
    C2H6 = "C2H6"
    H2 = "H2"
    HE = "He"
    N2 = "N2"
    N2O = "N2O"
    NE = "Ne"
    O2 = "O2"
    C3H8 = "C3H8"
    NC4H10 = "nC4H10"
    C2H2 = "C2H2"
    C2H4 = "C2H4"
    IC4H10 = "iC4H10"
    KR = "Kr"
    XE = "Xe"
    SF6 = "SF6"
    C_25 = "C-25"
    C_10 = "C-10"
    C_8 = "C-8"
    C_2 = "C-2"
    C_75 = "C-75"
    HE_25 = "He-25"
    HE_75 = "He-75"
    A1025 = "A1025"
    STAR29 = "Star29"
    P_5 = "P-5"
    NO = "NO"
    NF3 = "NF3"
    NH3 = "NH3"
    CL2 = "Cl2"
    H2S = "H2S"
    SO2 = "SO2"
    C3H6 = "C3H6"

    @property
    def code(self) -> int:
        """The number that gas commands take; the members stand in the order of the numbers."""
        return _GASES.code_of(self)

    @classmethod
    def by_code(cls, code: int) -> Gas:
        """The gas with this number.

        Raises:
            UnknownGasError: no gas listed here has it.
        """
        return _GASES.by_code(code)

    @classmethod
    def coerce(cls, value: Gas | str | int) -> Gas:
        """A gas from itself, its name in any case, or its number.

        Raises:
            UnknownGasError: nothing matches; the error suggests near names.
        """
        if isinstance(value, Gas):
            return value
        return cls.by_code(value) if isinstance(value, int) else _GASES.by_name(value)


_GASES = Registry(
    {gas: number for number, gas in enumerate(Gas)},
    {gas.value.casefold(): gas for gas in Gas},
    UnknownGasError,
)
