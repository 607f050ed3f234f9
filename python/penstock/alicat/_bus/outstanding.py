"""Outstanding replies: a unit that owes one settles this debt before its next question.

The protocol has no sequence numbers: a reply does not show which question it answers. Two polls of
one unit are answered by two lines of the same form. If the first answer arrives after its question
has timed out, it passes for the answer to the second, and from then on every answer is one question
old, without any sign. This module prevents that failure.

**The rule.** A unit is *in debt* from a question until its answer is accepted: a line may still
arrive. An ordinary question is never sent to a unit in debt. First the debt is settled:

1. *By proof.* A unit answers in the order in which it was asked, and the line keeps order. So the
client asks a question with an unmistakable answer (the firmware version: the line that this unit
sent when it was identified). All lines before that one are discarded, and nothing older can follow
it. This holds however late the old answer is, and costs one short exchange (4 ms at 115200 baud).
2. *By time*, where no proof is known (before a unit is identified, or if its firmware has none):
wait until ``late_reply_window`` after the last question of the debt, and discard what arrives. This
relies on a bound for the instrument's latency, so it is the second choice.

Debts are per unit, because replies carry the unit's letter: while B owes an answer, A can be asked;
B's late line is known by its letter and skipped. A debt begins before the first byte of a question
is sent and ends only when its answer has been accepted, so a cancelled task, an error in a parser
and a garbled line do not end it.

Some answers carry no letter (``DV``). Such a question is sent only when no unit of the bus is in
debt: all debts are settled first, by proof or by time. A late answer is recognised by its missing
letter, and skipped while its unit is in debt.

**A lost line ends every debt**, and everything else that was known: the reopened port may lead to
other instruments. The client counts its connections in :attr:`generation`, and a question for an
earlier one is never sent.

An answer to a proof that itself came late can only be a version line, which no other question
accepts: it is recognised and skipped.

One case is not covered on every stream: a well-formed reply without a question (a doubled one). If
it waits in the input before the next question, it starts a proof. A serial port reports waiting
input; a stream that does not (``input_waiting`` is ``None``) may deliver the line as the answer.

*Rejected:* flushing the input before each question (a late reply comes after the flush);
flushing after each timeout (the same); a fixed pause after a timeout (too short for a slow reply,
or lost time for the whole bus at every dead unit); counting outstanding replies (one that was lost
shifts the count just as one that is late).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import Protocol

from penstock.alicat._bus.replies import Counts, refuse_line
from penstock.alicat._bus.wire import LOST, Wire
from penstock.alicat.errors import (
    AlicatCommandRejectedError,
    AlicatError,
    AlicatProtocolError,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    AlicatUnitIdMismatchError,
)

_BEGINS_LETTERLESS = tuple(bytes([code]) for code in b"+-0123456789")


class Row(Enum):
    """What a decoder makes of a row that is not the last one of its table."""

    ANOTHER = "another"
    """More of them are expected."""


class StrayLine(Enum):
    """The kinds of lines that arrive instead of the awaited answer."""

    REFUSAL = "refusal"
    """It ends the question: the answer is malformed, or is a refusal."""
    OLDER = "older"
    """It answers an older question and says nothing about this one. The answer may follow."""
    UNKNOWN = "unknown"
    """The answer may follow. If it does not, this line is the result."""


@dataclass(frozen=True, slots=True)
class _Proof:
    command: bytes
    last_line: bytes


class _Ask(Protocol):
    def __call__(
        self,
        command: bytes,
        decode: Callable[[bytes], Row | None],
        timeout: float,
        unmistakable: bool,
    ) -> Awaitable[object]: ...


class OutstandingReplies:
    """The debts of the units of one connection. Used by whoever has the bus.

    Args:
        wire: The connection.
        counts: The bus's account.
        ask: Asks the question of a proof, while the caller has the bus.
        default_timeout: Seconds for the answer to a proof.
        window: Seconds after which no answer to a question can still arrive.
    """

    def __init__(
        self, wire: Wire, counts: Counts, ask: _Ask, *, default_timeout: float, window: float
    ) -> None:
        self.owed: dict[int, float] = {}
        """Units that owe an answer, and when they were asked last."""
        self._letterless: set[int] = set()
        self._has_streamed: set[int] = set()
        self._proofs: dict[int, _Proof] = {}
        self._streamed_lines = 0
        self._wire = wire
        self._counts = counts
        self._ask = ask
        self._timeout = default_timeout
        self._window = window

    def register_proof(self, unit: int, command: bytes, last_line: bytes) -> None:
        """Register a command of a unit and the line that ends its answer, and only its answer."""
        self._proofs[unit] = _Proof(command, last_line)

    def forget(self, unit: int) -> None:
        """Drop the proof of a unit."""
        self._proofs.pop(unit, None)

    def has_proof(self, unit: int) -> bool:
        """Whether a unit can prove that nothing older follows."""
        return unit in self._proofs

    def begin(self, unit: int, *, letterless: bool) -> bool:
        """Note a question that is about to be sent; whether the unit owed an answer before."""
        was_in_debt = unit in self.owed
        self._streamed_lines = 0
        self.owed[unit] = monotonic()
        if letterless:
            self._letterless.add(unit)
        return was_in_debt

    def note_stream_end(self, unit: int) -> None:
        """Note that a unit was told to stop streaming: some of its frames may still arrive."""
        self.owed[unit] = monotonic()
        self._has_streamed.add(unit)

    def acquit(self, unit: int) -> None:
        """Note that a unit has settled its debt."""
        self.owed.pop(unit, None)
        if self._letterless:
            self._letterless.discard(unit)
        if self._has_streamed:
            self._has_streamed.discard(unit)

    def place(
        self,
        line: bytes,
        command: bytes,
        error: AlicatProtocolError,
        unmistakable: bool,
        was_in_debt: bool,
    ) -> StrayLine:
        """Classify a line that is not the answer to ``command``."""
        unit = command[0]
        if line == command[:-1]:
            return StrayLine.OLDER  # two-wire adapters hear themselves
        proof = self._proofs.get(unit)
        if proof is not None and line == proof.last_line:
            return StrayLine.OLDER
        if isinstance(error, AlicatUnitIdMismatchError):
            if error.actual is not None and ord(error.actual) in self.owed:
                return StrayLine.OLDER
        elif self._letterless - {unit} and line[:1] in _BEGINS_LETTERLESS:
            return StrayLine.OLDER  # an answer without a letter that comes late
        elif isinstance(error, AlicatStreamingModeError):
            # One line may be an old reply without its first letter. Two lines are a stream.
            self._streamed_lines += 1
            if unit in self._has_streamed:
                return StrayLine.OLDER
            if self._streamed_lines >= 2:
                return StrayLine.REFUSAL
        elif isinstance(error, AlicatCommandRejectedError) and not was_in_debt:
            # A bare "?" does not show its unit: while others are in debt, it may be theirs.
            if len(self.owed) > 1 and line[:1] == b"?":
                return StrayLine.UNKNOWN
            self.acquit(unit)
            return StrayLine.REFUSAL
        if not unmistakable:
            return StrayLine.REFUSAL
        return StrayLine.OLDER if was_in_debt else StrayLine.UNKNOWN

    def may_lack_its_first_byte(self, line: bytes, error: AlicatProtocolError) -> bool:
        """Whether a line that looks streamed, without a letter, is the only one so far."""
        return (
            isinstance(error, AlicatStreamingModeError)
            and not line.startswith(b"@")
            and self._streamed_lines == 1
            and not self._wire.has_strays()
        )

    # -- settling

    def untidy(self) -> bool:
        """Whether a unit owes an answer, or unsolicited bytes wait."""
        return bool(self.owed) or self._wire.has_strays()

    async def prepare(self, unit: int, unmistakable: bool) -> None:
        """Wait for silence, and settle the debt of ``unit`` unless the question does that."""
        stray = self._wire.has_strays()
        if not stray and unit not in self.owed:
            return  # others are in debt; their lines carry their letters
        if stray:
            self._blame(unit)
        try:
            await self._wire.drain()
            if unit in self.owed and not unmistakable:
                self._counts.resyncs += 1
                if unit in self._proofs:
                    await self.prove(unit)
                else:
                    await self._settle_by_time(unit)
        except AlicatError:
            raise  # a timeout of ours is an OSError, too
        except LOST as error:
            raise self._wire.lost(error) from error

    async def settle_everyone(self, unit: int) -> None:
        """Settle the debts of all units of the bus, before a question whose answer has no letter.

        For a unit without a proof (it may be switched off), this waits until the late reply window
        has passed.
        """
        if self._wire.has_strays():
            self._blame(unit)
        try:
            await self._wire.drain()
            for other in tuple(self.owed):
                self._counts.resyncs += 1
                if other in self._proofs:
                    with suppress(AlicatTimeoutError, AlicatProtocolError):
                        await self.prove(other)
                        continue
                await self._settle_by_time(other)
        except AlicatError:
            raise
        except LOST as error:
            raise self._wire.lost(error) from error

    async def prove(
        self, unit: int, take_row: Callable[[bytes], bool] = lambda line: False
    ) -> None:
        """Let the unit prove that nothing older follows; ``take_row`` gets earlier lines."""
        proof = self._proofs[unit]

        def accept(line: bytes) -> Row | None:
            if line == proof.last_line:
                return None
            if take_row(line):
                return Row.ANOTHER
            refuse_line(line, chr(unit), wanted="the line that it identified itself with")

        await self._ask(proof.command, accept, self._timeout, True)
        self._counts.exchanges -= 1

    async def prove_end(self, unit: int, take_row: Callable[[bytes], bool]) -> None:
        """Take the rows that arrive before the unit's proof, if it gives one."""
        try:
            await self.prove(unit, take_row)
        except AlicatStreamingModeError:
            raise
        except (AlicatTimeoutError, AlicatProtocolError):
            pass  # the debt stands

    def _blame(self, unit: int) -> None:
        # Unsolicited bytes of an unknown unit: treat them as those of the unit that is asked next.
        self.owed.setdefault(unit, monotonic())
        self._wire.last_byte_at = monotonic()

    async def _settle_by_time(self, unit: int) -> None:
        wire = self._wire
        while (remaining := self.owed[unit] + self._window - monotonic()) > 0:
            chunk = await wire.receive_within(remaining)
            if chunk:
                wire.lines.feed(chunk)
                wire.last_byte_at = monotonic()
                wire.discard()
        await wire.drain()
        self.acquit(unit)
