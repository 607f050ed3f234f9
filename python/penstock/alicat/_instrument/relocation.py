"""Changes the unit id or the baud rate of an instrument, and identifies it afterwards."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.alicat._bus.replies import check_unit_id
from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.identification import is_anybody_there
from penstock.alicat.commands.baud_rate import BAUD_RATE, BaudRateRequest
from penstock.alicat.errors import (
    AlicatCommandRejectedError,
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatError,
    AlicatTimeoutError,
    AlicatValidationError,
)

if TYPE_CHECKING:
    from penstock.alicat._instrument.session import Session

__all__ = ["change_baud_rate", "change_unit_id"]


async def change_unit_id(session: Session, new_unit_id: str, *, confirm: bool = False) -> None:
    """Give an instrument another letter on its bus.

    First makes sure that no instrument has that letter. Afterwards the instrument must identify
    itself under it by its serial number. A task that is cancelled after the instrument was told
    waits for that before it ends.

    Raises:
        InvalidUnitIdError: it is not one letter A to Z.
        AlicatValidationError: ``confirm`` is not true, or another instrument has the letter;
            nothing was sent.
        AlicatError: the instrument did not answer under its new letter. It is then unknown which
            one it has; the session continues with the old one.
    """
    new = check_unit_id(new_unit_id)
    old, client = session.unit_id, session.client
    if not confirm:
        raise AlicatValidationError(
            f"unit {old} was not renamed: two instruments with one letter cannot be told apart; "
            "repeat it with confirm=True",
            context=session.error_context(),
        )
    if new == old:
        return
    generation = await session.ensure_current()
    if await is_anybody_there(client, new, timeout=session.timeout, generation=generation):
        raise AlicatValidationError(
            f"unit {old} was not renamed: an instrument answers as unit {new} already; choose "
            "another letter",
            context=session.error_context(),
        )
    await client.waiting.checkpoint_if_cancelled()
    # To the end: once it was told, only its answer tells which letter it has.
    await client.waiting.finish(lambda: _rename(session, new, generation))


async def change_baud_rate(session: Session, baudrate: int, *, confirm: bool = False) -> None:
    """Change the baud rate of an instrument, and then of its port.

    Other instruments on the port cannot be asked until they follow. If the instrument does not
    answer at the new rate, the old one is tried again. A task that is cancelled after the
    instrument was told waits for that first.

    Raises:
        AlicatValidationError: instruments do not have this rate, or ``confirm`` is not true;
            nothing was sent.
        AlicatConfigurationError: the port cannot follow, because the device was not opened by its
            path; nothing was sent.
        AlicatFirmwareError: its firmware cannot change it; nothing was sent.
        AlicatCommandRejectedError: it keeps the old rate, and so does the port.
        AlicatConnectionError: it answers at neither rate, or the port cannot be opened.
    """
    client = session.client
    old = client.transport.baudrate
    if old is None or not client.can_change_baudrate:
        raise AlicatConfigurationError(
            f"the baud rate of {client.label} cannot be changed: open the device by the path of "
            "its port",
            context=session.error_context(BAUD_RATE),
        )
    await client.waiting.checkpoint_if_cancelled()
    # To the end: once it was told, only its answer tells which rate it has.
    await client.waiting.finish(
        lambda: _change_rate(session, old, BaudRateRequest(baudrate, confirm))
    )


async def _rename(session: Session, new: str, generation: int) -> None:
    old = session.unit_id
    await session.client.rename(old, new, generation=generation)
    try:
        await session.identify_at(unit_id=new)
    except BaseException:
        with suppress(AlicatError):
            await session.identify_at(unit_id=old)
        raise
    session.tell(EventKind.SETTING, f"its unit id was {old} and is {new}")


async def _change_rate(session: Session, old: int, request: BaudRateRequest) -> None:
    place = f"unit {session.unit_id} on {session.client.label}"
    # Some instruments answer at the new rate already, so that no answer is heard.
    with suppress(AlicatTimeoutError):
        await session.execute(BAUD_RATE, request)
    try:
        await session.identify_at(baudrate=request.baudrate)
    except AlicatError as error:
        try:
            await session.identify_at(baudrate=old)
        except AlicatError as second:
            raise AlicatConnectionError(
                f"{place} was to talk at {request.baudrate} baud and answers neither there nor at "
                f"{old}: switch it off and on, and look in its communication menu",
                context=session.error_context(BAUD_RATE),
            ) from second
        raise AlicatCommandRejectedError(
            f"{place} still talks at {old} baud", context=session.error_context(BAUD_RATE)
        ) from error
    session.tell(EventKind.SETTING, f"its baud rate was {old} and is {request.baudrate}")
