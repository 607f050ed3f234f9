"""The quantity that is shown of a device that measures several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Quantity", "choose_quantity"]

_SETPOINT_SUFFIX = "_Setpt"
_PREFERRED = ("Mass_Flow", "Volu_Flow", "Abs_Press")


@dataclass(frozen=True, slots=True)
class Quantity:
    """The column that is shown for a device, its setpoint column (None for a meter) and unit."""

    name: str
    setpoint: str | None
    unit: str | None

    @property
    def label(self) -> str:
        """The name as people read it, such as ``mass flow``."""
        return self.name.replace("_", " ").lower().replace("volu ", "volumetric ")


def choose_quantity(fields: Mapping[str, str | None]) -> Quantity | None:
    """Choose the quantity to show among the numeric ``fields`` (name to unit), in frame order.

    For a controller it is the controlled quantity: the column that the setpoint column is named
    after. For a meter it is the flow, else the pressure, else the first number, else None.
    """
    for name in fields:
        controlled = name.removesuffix(_SETPOINT_SUFFIX)
        if controlled != name:
            # A pressure controller's names differ: "Press_Setpt" for "Abs_Press".
            value = next((f for f in fields if f != name and f.endswith(controlled)), None)
            if value is not None:
                return Quantity(value, name, fields[value])
    for name in (*_PREFERRED, *fields):
        if name in fields:
            return Quantity(name, None, fields[name])
    return None
