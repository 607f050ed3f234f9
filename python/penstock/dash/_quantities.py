"""The numbers that a device measures, and which of them are shown if nobody chooses others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.record.arrow import name_with_unit
from penstock.record.shown_quantity import Quantity, choose_quantity


def quantity_key(field: str, unit: str | None) -> str:
    """The name of a curve: another unit of the same field is another curve."""
    return name_with_unit(field, unit) if unit else field


@dataclass(slots=True)
class ShownQuantity:
    """One field of a device in one unit, and its last answer; None if that was no number."""

    field: str
    unit: str | None
    value: float | None = None

    @property
    def key(self) -> str:
        """Its name among the curves of the device."""
        return quantity_key(self.field, self.unit)


class Quantities:
    """The quantities of one device, in the order in which they came."""

    def __init__(self) -> None:
        self._found: dict[str, ShownQuantity] = {}
        self._measured: set[str] = set()
        self._newest: dict[str, ShownQuantity] = {}
        self.main: Quantity | None = None
        """The quantity that is shown by default, with its setpoint column."""

    @property
    def all(self) -> list[ShownQuantity]:
        """All of them."""
        return list(self._found.values())

    def expect(self, quantity: Quantity | None) -> None:
        """Take what will be shown by default, before it is measured."""
        self.main = quantity
        if quantity is not None:
            for field in (quantity.name, quantity.setpoint):
                if field is not None and field not in self._newest:
                    self._add(field, quantity.unit)

    def measure(self, field: str, unit: str | None) -> tuple[ShownQuantity, bool]:
        """The quantity of a field that has values, and whether it is another one than before."""
        quantity = self._found.get(quantity_key(field, unit))
        is_new = quantity is None
        if quantity is None:
            expected = self._newest.get(field)
            if expected is not None and expected.key not in self._measured:
                del self._found[expected.key]  # its unit was not known before
            quantity = self._add(field, unit)
        self._measured.add(quantity.key)
        self._newest[field] = quantity
        return quantity, is_new

    def choose(self) -> bool:
        """Choose what is shown by default; whether that is another one than before."""
        units = {field: quantity.unit for field, quantity in self._newest.items()}
        main = self.main
        chosen = (
            choose_quantity(units)
            if main is None or main.name not in units
            else Quantity(main.name, main.setpoint, units[main.name] or main.unit)
        )
        changed = chosen != main
        self.main = chosen
        return changed

    def of_field(self, field: str | None) -> ShownQuantity | None:
        """The quantity of a field in the unit that it has now."""
        return self._newest.get(field) if field is not None else None

    def of_key(self, key: str) -> ShownQuantity | None:
        """The quantity of this name."""
        return self._found.get(key)

    @property
    def shown(self) -> ShownQuantity | None:
        """The one that is shown by default."""
        return self.of_field(self.main.name if self.main is not None else None)

    @property
    def setpoint(self) -> ShownQuantity | None:
        """The setpoint of that one."""
        return self.of_field(self.main.setpoint if self.main is not None else None)

    def answer(self, values: Mapping[str, float | None]) -> None:
        """Take the last answer, by keys; what it does not have has no value any more."""
        for key, quantity in self._found.items():
            quantity.value = values.get(key)

    def _add(self, field: str, unit: str | None) -> ShownQuantity:
        made = ShownQuantity(field, unit)
        self._found[made.key] = self._newest[field] = made
        return made
