"""The register maps by the names of families."""

from __future__ import annotations

from typing import Final

from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.modbus.registers import (
    CODA_METER_REGISTERS,
    MASS_FLOW_CONTROLLER_REGISTERS,
    MASS_FLOW_METER_REGISTERS,
    RegisterMap,
    basis_registers,
    liquid_registers,
    pressure_registers,
)
from penstock.alicat.registry import Statistic

__all__ = ["FAMILIES", "registers_of_family"]

_PRESSURES: Final = {
    "absolute": Statistic.ABS_PRESS,
    "gauge": Statistic.GAUGE_PRESS,
    "differential": Statistic.DIFF_PRESS,
}
_BASIS: Final = ("basis-controller", "basis-meter")
_MAPS: Final = {
    "mass-flow-controller": MASS_FLOW_CONTROLLER_REGISTERS,
    "mass-flow-meter": MASS_FLOW_METER_REGISTERS,
    "liquid-controller": liquid_registers(controller=True),
    "liquid-meter": liquid_registers(controller=False),
    **{
        f"{name}-pressure-{kind}": pressure_registers(statistic, controller=kind == "controller")
        for name, statistic in _PRESSURES.items()
        for kind in ("controller", "meter")
    },
    "coda-meter": CODA_METER_REGISTERS,
}
#: The names that :func:`registers_of_family` takes.
FAMILIES: Final = (*_MAPS, *_BASIS)


def registers_of_family(family: str, *, decimals: int | None = None) -> RegisterMap:
    """The register map of a family, one of :data:`FAMILIES`.

    ``decimals`` are those of the flow readings of a BASIS instrument, for which no register tells
    them, and for no other.

    Raises:
        AlicatValidationError: there is no such family, or ``decimals`` are missing or too much.
    """
    if family in _BASIS:
        if decimals is None:
            raise AlicatValidationError(
                f"the family {family} needs the decimals of its flow readings: no register tells "
                "them"
            )
        return basis_registers(decimals, controller=family == _BASIS[0])
    if decimals is not None:
        raise AlicatValidationError(
            f"decimals are for BASIS instruments; leave them out for {family}"
        )
    found = _MAPS.get(family)
    if found is None:
        raise AlicatValidationError(
            f"{family!r} is not a family of Modbus instruments; write one of {', '.join(FAMILIES)}"
        )
    return found
