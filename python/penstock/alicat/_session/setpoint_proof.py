"""Proves the unit of a number that a controller is sent.

Three facts say which unit a setpoint has: the data frame's table, the instrument's answer to the
question for its setpoint, and its confirmation of the setpoint that it was sent. A number is sent
only after the first two agree with each other and with the unit that the caller means, and it
counts as set only if the third agrees with them. Which fact is right where they differ, nobody
knows, so then nothing is sent.

A proof holds until something may have changed a unit: a command that changes settings, another
format, a contradiction, a raw command, another identification. Each of these begins a new
*generation*. The number carries the generation of its proof, and it is compared at the last moment,
when the bus is this question's and its debts are settled. So no other task's command can come
between the proof and the number. Somebody at the panel can: then the confirmation tells it.

*Rejected:* converting the number. Whether the unit was changed on purpose is not known.

*Rejected:* to hold the bus from the question to the number. A question may need another one first
(a debt, a table), each of which takes the bus for itself.

Firmware without the question (before 9v00) has its table read again instead, and confirms with a
data frame, which has no unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.alicat._instrument.setpoints import ProvenNumber
from penstock.alicat._session.data_format import FormatKeeper
from penstock.alicat.commands.control import SETPOINT, SetpointRequest
from penstock.alicat.errors import AlicatUnitChangedError, AlicatValidationError, ErrorContext
from penstock.alicat.registry import Statistic, Unit
from penstock.alicat.registry.units import are_same_unit, stated_label

if TYPE_CHECKING:
    from penstock.alicat._session.session import Session


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
            UnknownUnitError: there is no unit of the stated name, and the instrument has none.
            AlicatValidationError: the caller states another unit than the one in force.
            AlicatUnitChangedError: the unit in force is not that of the setpoint.
        """
        if stated is not None:
            wanted = stated_label(stated, in_force)
            if in_force is None:
                raise AlicatValidationError(
                    f"unit {unit_id} does not state the unit of its setpoint, so {wanted} cannot "
                    "be proven: look at its display, and omit unit=... if it is the same",
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
                f"unit {unit_id} has its setpoint in {in_force or 'an unknown unit'} now, not "
                f"in {meant} as when it was opened; nothing was sent: state unit=... "
                "with it, or call refresh_data_frame_format() to accept the new unit",
                expected=meant,
                actual=in_force,
                context=context,
            )


#: The first answer may be damaged, and the second may be the first one after a change.
_MOST_QUESTIONS = 3


class SetpointProof:
    """The unit of the numbers of one session.

    Args:
        session: Sends the questions.
        keeper: Knows the format in force.
    """

    def __init__(self, session: Session, keeper: FormatKeeper) -> None:
        self._session = session
        self._keeper = keeper
        self._meant = MeantUnit(keeper.in_force.setpoint_label)
        self._raw_commands = session.client.raw_commands

    @property
    def meant_label(self) -> str | None:
        """The unit of numbers that are passed without one."""
        return self._meant.label

    def mean_unit_in_force(self) -> None:
        """Let numbers without a unit refer to the unit that is in force now."""
        self._meant = MeantUnit(self._keeper.in_force.setpoint_label)

    def mean_chosen_unit(self, chosen: str | None, before: Statistic | None) -> None:
        """Let numbers without a unit refer to what a command of this program has chosen.

        What somebody has chosen at the panel meanwhile is not a choice of the program.

        Args:
            chosen: The unit in the command's answer, if it has one.
            before: The setpoint of the format before the command. After a change of the controlled
                quantity the unit is that of the new one.
        """
        in_force = self._keeper.in_force
        field = in_force.columns.setpoint_field
        if field is None or field.unit_label is None:
            return
        if field.statistic is not before or (
            chosen is not None and are_same_unit(chosen, field.unit_label)
        ):
            self.mean_unit_in_force()

    async def prove(self, value: float, unit: Unit | str | None) -> ProvenNumber:
        """Ask the instrument for the unit of its setpoint, and compare all that is known of it.

        Args:
            value: The number.
            unit: The unit that the caller states. Without one, the number is in the unit that was
                in force when the instrument was opened, or when the caller last read the format.

        Raises:
            UnknownUnitError: there is no unit of this name, and the instrument has none.
            AlicatValidationError: the caller states another unit than the instrument has.
            AlicatUnitChangedError: the unit that the caller means is not the instrument's, or the
                instrument contradicts itself.
            AlicatError: the instrument could not be asked.
        """
        meant = self._meant  # as the caller means it now, whatever other tasks do meanwhile
        label, generation = await self._ask()
        meant.check(
            unit,
            label,
            unit_id=self._session.unit_id,
            context=self._session.error_context(SETPOINT),
        )
        if self._meant is meant and meant.label is None:
            self._meant = MeantUnit(label)
        field = self._keeper.in_force.columns.setpoint_field
        return ProvenNumber(value, label, None if field is None else field.statistic, generation)

    def check(self, number: ProvenNumber) -> None:
        """Make sure that nothing may have changed the unit of a number since it was proven.

        Raises:
            AlicatUnitChangedError: something may have.
        """
        self._note_raw_commands()
        # In doubt: another task reads the table at this moment, and may have seen another unit.
        if number.generation != self._keeper.proof_generation or self._keeper.in_doubt:
            raise AlicatUnitChangedError(
                f"unit {self._session.unit_id} was not sent {number}: since it was asked for its "
                "unit, a command or another identification may have changed it; repeat the call",
                expected=number.unit_label,
                actual=self._keeper.in_force.setpoint_label,
                context=self._session.error_context(SETPOINT),
            )

    def confirm(self, number: ProvenNumber, answered: str | None) -> None:
        """Compare the unit of a confirmation with the unit of the number that was sent.

        A damaged unit is not told from a changed one by another question: the unit may have been
        changed twice.

        Args:
            number: The number that was sent.
            answered: The unit in the confirmation; ``None`` if it has none.

        Raises:
            AlicatUnitChangedError: the instrument may have counted the number in another unit.
        """
        meant, table = number.unit_label, self._keeper.in_force.setpoint_label
        for label, source in ((answered, "answered"), (table, "describes its data frame")):
            if meant is not None and label is not None and not are_same_unit(meant, label):
                raise AlicatUnitChangedError(
                    f"unit {self._session.unit_id} was sent {number}, and {source} in {label}: "
                    "its unit was changed at that moment, or its answer was damaged; read the "
                    "setpoint and correct it now",
                    expected=meant,
                    actual=label,
                    context=self._session.error_context(SETPOINT),
                )

    async def _ask(self) -> tuple[str | None, int]:
        """The unit that the instrument's facts agree on, and the generation of this proof."""
        session, keeper = self._session, self._keeper
        await session.ensure_current()
        if not session.info.firmware.has_modern_setpoint:
            await keeper.refresh()
            self._note_raw_commands()
            return keeper.in_force.setpoint_label, keeper.proof_generation
        answered: str | None = None
        in_force: str | None = None
        for _ in range(_MOST_QUESTIONS):
            self._note_raw_commands()
            generation = keeper.proof_generation
            answered = (await session.execute(SETPOINT, SetpointRequest())).unit_label
            in_force = keeper.in_force.setpoint_label
            agree = in_force is None or are_same_unit(answered or "", in_force)
            if keeper.in_doubt:
                await keeper.settle_doubt()
            elif agree and generation == keeper.proof_generation:
                return answered, generation
        raise AlicatUnitChangedError(
            f"unit {session.unit_id} answers in {answered} when it is asked for its setpoint, and "
            f"describes it in {in_force or 'no unit'} in its data frame (??D*): nothing was sent; "
            "choose one unit for flow and setpoint, at its panel or with engineering_units(), and "
            "repeat the call",
            expected=in_force,
            actual=answered,
            context=session.error_context(SETPOINT),
        )

    def _note_raw_commands(self) -> None:
        # Nobody knows what a raw command has changed.
        if (seen := self._session.client.raw_commands) != self._raw_commands:
            self._raw_commands = seen
            self._keeper.void_proofs()
