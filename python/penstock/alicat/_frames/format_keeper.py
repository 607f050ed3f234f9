"""Keeps the format in force equal to the instrument's own.

Frames carry no units, so a change of the unit at the panel makes the format false without any sign.
Two things show it: an answer with a unit, which is requested at intervals, and frames of another
form. Once an answer carries another unit, the format is *in doubt*: no frame is labelled by it
until it has been read again (:mod:`penstock.alicat._frames.format_reading`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING

from penstock.alicat._bus.scheduler import BusScheduler
from penstock.alicat._bus.unit_question import unit_question
from penstock.alicat._frames.format_in_force import FormatInForce
from penstock.alicat._frames.format_reading import read_data_frame_format, read_full_scale
from penstock.alicat._instrument.events import EventKind
from penstock.alicat.commands.command import ReportedUnit
from penstock.alicat.errors import AlicatError

if TYPE_CHECKING:
    from penstock.alicat._instrument.session import Session

__all__ = ["FormatKeeper"]

_log = logging.getLogger("penstock.alicat")


class FormatKeeper:
    """The format in force of one session, and whether it can still be relied on.

    Args:
        session: The session that the format belongs to. Sends the questions and reports events.
        in_force: The format as it was read when the instrument was opened.
        check_s: Seconds between two questions for a unit; 0: no questions.
    """

    def __init__(self, session: Session, in_force: FormatInForce, check_s: float) -> None:
        self.in_force = in_force
        self.revision = 0
        """Counts the changes."""
        self.proof_generation = 0
        """Counts what may have changed a unit; see
        :mod:`penstock.alicat._frames.setpoint_proof`."""
        self._contradicted = False
        self._refreshes = 0
        self._session = session
        self._turns = BusScheduler(session.client.waiting)
        self._misfits = 0
        self._check_s = check_s
        self.check_at = monotonic() + check_s if check_s else math.inf
        """When the next question for the unit is due."""

    @property
    def in_doubt(self) -> bool:
        """Whether an answer carried another unit and the format has not been read since.

        Also while a task reads it.
        """
        return self._contradicted or self._refreshes > 0

    def void_proofs(self) -> None:
        """Note that a unit may have changed: no number is sent by an older proof of its unit."""
        self.proof_generation += 1

    def frame_fitted(self) -> None:
        """Note that a frame had the form of the format."""
        self._misfits = 0

    async def frame_did_not_fit(self) -> None:
        """Note that a frame had another form, and read the format if that happens repeatedly.

        One such frame may be a disturbance on the line; after two in a row the format may have
        changed. It is read every second time, because reading it may fail too.
        """
        self._misfits += 1
        if self._misfits % 2 == 0:
            try:
                await self.refresh()
            except AlicatError as failure:
                _log.info(
                    "unit %s: the format could not be read: %s", self._session.unit_id, failure
                )

    async def refresh(self) -> None:
        """Read the format again.

        Meanwhile it is in doubt: another task's frame may be from after a change.

        Raises:
            AlicatError: as for :func:`read_data_frame_format`; the old format then stays in force,
                and stays in doubt if it was.
        """
        # A count, since several tasks may do this at once: one that fails says nothing about the
        # others, nor about an answer with another unit meanwhile.
        self._refreshes += 1
        try:
            await self.settle_doubt()
        finally:
            self._refreshes -= 1

    async def settle_doubt(self) -> None:
        """Read the format if it is in doubt; raises as :meth:`refresh`."""
        async with self._reading():
            if self.in_doubt:
                await self.take(await self._read())

    async def take(self, found: FormatInForce) -> None:
        """Put a format into force that was read just now, and report the changes."""
        before, session = self.in_force, self._session
        self.in_force = found
        self._contradicted = False
        self._misfits = 0
        if found.columns.fields == before.columns.fields:
            return
        self.void_proofs()
        self.revision += 1
        session.tell(EventKind.FORMAT_CHANGED, f"its data frame was {before} and is {found}")
        session.learn_full_scale(
            await read_full_scale(
                session.client,
                session.info,
                found.columns,
                timeout=session.timeout,
                generation=session.generation,
            )
        )

    async def compare(self, reported: tuple[ReportedUnit, ...]) -> None:
        """Compare the units in an answer with the format; read it again if they differ.

        Raises:
            AlicatError: it could not be read; it is in doubt from now on.
        """
        difference = self.in_force.first_difference(reported)
        if difference is None:
            return
        field, label = difference
        self._contradicted = True
        self.void_proofs()
        async with self._reading():
            if not self._contradicted and self.in_force.first_difference(reported) is None:
                return  # another task has read it, and has reported the change
            found = await self._read()
            if found.first_difference(reported) is None:
                self._session.tell(
                    EventKind.UNIT_CHANGED,
                    f"{field.name} is in {label} now, and was in {field.unit_label}",
                    {"field": field.name, "before": field.unit_label, "after": label},
                )
            # Otherwise the answer was damaged, or the unit was changed once more.
            await self.take(found)

    async def check_unit(self) -> None:
        """Send a question whose answer carries a unit, and compare the unit.

        A question that fails is asked again when the next check is due.

        Raises:
            AlicatError: another unit was reported, and the format could not be read.
        """
        # No other task may ask meanwhile.
        self.check_at = math.inf
        session = self._session
        try:
            question = unit_question(session.info, self.in_force)
            if question is not None:
                await session.execute(*question)
        except AlicatError as error:
            if self.in_doubt:
                raise
            _log.info("unit %s: its unit could not be asked: %s", session.unit_id, error)
        finally:
            self.check_at = monotonic() + self._check_s

    @asynccontextmanager
    async def _reading(self) -> AsyncGenerator[None, None]:
        """One task at a time."""
        if not self._turns.try_acquire(0):
            await self._turns.acquire(0)
        try:
            yield
        finally:
            self._turns.release()

    async def _read(self) -> FormatInForce:
        session = self._session
        return await read_data_frame_format(
            session.client,
            session.unit_id,
            timeout=session.timeout,
            firmware=session.info.firmware,
            generation=session.generation,
            known=self.in_force,
        )
