"""A number in the unit of a controller's setpoint, and the limits of a program for it.

The same number in another unit may be a thousand times the flow. So a number travels to the encoder
together with its unit and with the proof of that unit, as one immutable object, and nothing that
goes with it is looked up a second time.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Statistic
from penstock.alicat.registry.units import are_same_unit

__all__ = ["ProvenNumber", "SetpointLimits"]


@dataclass(frozen=True, slots=True)
class ProvenNumber:
    """A number whose unit the instrument has confirmed.

    Made by :meth:`penstock.alicat._frames.setpoint_proof.SetpointProof.prove`.
    """

    value: float
    unit_label: str | None
    """The unit, as the instrument has written it; ``None`` for an instrument that never states it.
    """
    quantity: Statistic | None
    """The setpoint that the unit belongs to, where the data frame names it."""
    generation: int
    """The generation of the proof. Whatever may change a unit begins a new one; a number of an
    older generation is not sent."""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:g}" if self.unit_label is None else f"{self.value:g} {self.unit_label}"


@dataclass(frozen=True, slots=True)
class SetpointLimits:
    """The lowest and highest setpoint that a program allows, in one unit of one quantity."""

    low: float | None
    high: float | None
    unit_label: str | None
    """``None``: the unit is unknown, and so must that of a setpoint be."""
    quantity: Statistic | None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise AlicatValidationError(
                f"the lower limit {self.low:g} is above the upper limit {self.high:g}"
            )

    def objection(self, number: ProvenNumber) -> str | None:
        """Why a number is not allowed; ``None`` if it is.

        A number in another unit or of another quantity cannot be compared, so it is not allowed.
        """
        if self.low is None and self.high is None:
            return None
        if not self._compares_with(number):
            return (
                f"setpoint {number} cannot be compared with the limits {self}: state limits in its "
                "unit with limit_setpoint(low, high, unit=...)"
            )
        low, high = self.low, self.high
        if (low is not None and number.value < low) or (high is not None and number.value > high):
            return (
                f"setpoint {number} is outside of the limits that were set ({self}): change them "
                "with limit_setpoint()"
            )
        return None

    def _compares_with(self, number: ProvenNumber) -> bool:
        if self.quantity is not number.quantity:
            return False
        if self.unit_label is None or number.unit_label is None:
            return self.unit_label is number.unit_label
        return are_same_unit(self.unit_label, number.unit_label)

    def __str__(self) -> str:
        low = "any" if self.low is None else f"{self.low:g}"
        high = "any" if self.high is None else f"{self.high:g}"
        unit = "" if self.unit_label is None else f" {self.unit_label}"
        return f"{low} to {high}{unit}"
