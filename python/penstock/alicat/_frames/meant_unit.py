"""The unit of the setpoints of a program."""

from __future__ import annotations

from penstock.alicat.errors import AlicatUnitChangedError, AlicatValidationError, ErrorContext
from penstock.alicat.registry import Unit
from penstock.alicat.registry.units import are_same_unit, stated_label

__all__ = ["MeantUnit"]


class MeantUnit:
    """The unit of numbers that are passed without a unit.

    Args:
        label: The label of the unit that was in force when the instrument was opened, or when the
            caller last read the format; ``None`` where it is unknown.
    """

    def __init__(self, label: str | None) -> None:
        self.label = label

    def check(
        self,
        stated: Unit | str | None,
        in_force: str | None,
        *,
        unit_id: str,
        context: ErrorContext,
    ) -> None:
        """Make sure that a setpoint is in the unit that the instrument uses.

        Args:
            stated: The unit that the caller states with the setpoint, if any.
            in_force: The label of the unit that the instrument uses now.
            unit_id: The instrument's letter.
            context: The context of an error.

        Raises:
            AlicatValidationError: the caller states another unit than the one in force.
            AlicatUnitChangedError: the unit in force is not that of the setpoint.
        """
        if stated is not None:
            wanted = stated_label(stated)
            if in_force is None:
                raise AlicatValidationError(
                    f"unit {unit_id} does not tell the unit of its setpoint, so {wanted} cannot be "
                    "proven: look at its display, and omit unit=... if it is the same",
                    context=context,
                )
            if not are_same_unit(wanted, in_force):
                raise AlicatValidationError(
                    f"unit {unit_id} takes its setpoint in {in_force}, not in {wanted}: "
                    "convert the value, or change the instrument's unit",
                    context=context,
                )
            return
        meant = self.label
        if meant is not None and (in_force is None or not are_same_unit(meant, in_force)):
            raise AlicatUnitChangedError(
                f"unit {unit_id} counts its setpoint in {in_force or 'an unknown unit'} now, and "
                f"not in {meant} as when it was opened; nothing was sent: state unit=... "
                "with it, or call refresh_data_frame_format() to take the new unit for granted",
                expected=meant,
                actual=in_force,
                context=context,
            )
