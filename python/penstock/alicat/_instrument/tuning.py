"""The control loop's algorithm and gains, which instruments keep in registers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["ALGORITHM_REGISTER", "GAIN_REGISTERS", "LoopAlgorithm", "PidSettings"]

ALGORITHM_REGISTER = 85
GAIN_REGISTERS = {"proportional": 21, "derivative": 22, "integral": 23}


class LoopAlgorithm(IntEnum):
    """How a control loop computes its valve's drive; the value is what register 85 holds."""

    PD_PDF = 1
    """Proportional and derivative; the integral gain is not used."""
    PD2I = 2


@dataclass(frozen=True, slots=True)
class PidSettings:
    """The gains of a control loop, as whole numbers of the instrument's own scale."""

    unit_id: str
    algorithm: LoopAlgorithm | None
    """``None`` where the instrument has only one."""
    proportional: int
    derivative: int | None
    integral: int
