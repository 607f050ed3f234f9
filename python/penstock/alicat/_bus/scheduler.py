"""The order of questions on a bus, where one unit may send at a time.

Commands go before polls: a setpoint does not wait behind the polls of fifteen other instruments. Of
the polls, the one of the unit goes first whose last poll is the longest ago, so one that is polled
at a high rate does not delay the others. Commands go in the order in which they came. After eight
commands in succession a waiting poll has its turn, so that a program that only sends commands does
not stop a recording.

*Rejected:* a lock, which serves all questions in the order of arrival.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from penstock.alicat._bus.waiting import ANYIO, Event, Waiting

_MOST_COMMANDS_IN_SUCCESSION = 8
_BITS_A_CHARACTER = 10
#: Between the end of a question and the start of its answer, for a typical instrument.
_TURNAROUND_S = 0.003


@dataclass(slots=True, eq=False)
class _Waiter:
    unit: int
    event: Event
    granted: bool = False


class BusScheduler:
    """Gives the bus to one question at a time.

    The holder of the bus calls :meth:`release`. Safe to use from several threads where
    ``waiting`` blocks threads. A cancelled :meth:`acquire` has not taken the bus.
    """

    def __init__(self, waiting: Waiting = ANYIO) -> None:
        self._waiting = waiting
        self._held = threading.Lock()
        self._queues = threading.Lock()
        self._commands: deque[_Waiter] = deque()
        self._polls: deque[_Waiter] = deque()
        self._poll_count = 0
        self._last_poll: dict[int, int] = {}
        self._commands_in_succession = 0

    def try_acquire(self, unit: int, *, poll: bool = False) -> bool:
        """Take the bus for ``unit`` if it is free."""
        if not self._held.acquire(blocking=False):
            return False
        if poll:
            self._note_poll(unit)
        return True

    async def acquire(self, unit: int, *, poll: bool = False) -> None:
        """Wait for the bus, for a poll or a command of ``unit``."""
        queue = self._polls if poll else self._commands
        with self._queues:
            # Again: it may have been released since, and a release only checks the queues.
            if self.try_acquire(unit, poll=poll):
                return
            waiter = _Waiter(unit, self._waiting.event())
            queue.append(waiter)
        try:
            await waiter.event.wait()
        except BaseException:
            with self._queues:
                if waiter.granted:
                    self._hand_over()
                else:
                    queue.remove(waiter)
            raise

    def release(self) -> None:
        """Give the bus to the next question."""
        with self._queues:
            if self._commands or self._polls:
                self._hand_over()
            else:
                self._commands_in_succession = 0
                self._held.release()

    @property
    def waiting_questions(self) -> int:
        """Questions that wait for the bus."""
        return len(self._commands) + len(self._polls)

    def _hand_over(self) -> None:
        waiter = self._next()
        if waiter is None:
            self._held.release()
            return
        # The bus stays taken: nobody can come in between.
        waiter.granted = True
        waiter.event.set()

    def _next(self) -> _Waiter | None:
        commands, polls = self._commands, self._polls
        if commands and (not polls or self._commands_in_succession < _MOST_COMMANDS_IN_SUCCESSION):
            self._commands_in_succession += 1
            return commands.popleft()
        self._commands_in_succession = 0
        if not polls:
            return None
        last_poll = self._last_poll
        waiter = min(polls, key=lambda waiter: last_poll.get(waiter.unit, 0))
        polls.remove(waiter)
        self._note_poll(waiter.unit)
        return waiter

    def _note_poll(self, unit: int) -> None:
        self._poll_count += 1
        self._last_poll[unit] = self._poll_count


def utilisation(baudrate: int, polls: list[tuple[int, float]]) -> float:
    """The share of a line's time that polls take; above 1 they cannot all be made.

    ``polls`` are the characters of a reply and the polls a second, of each unit. A question counts
    as two characters, each character as ten bits, and the instrument's pause before its answer as
    3 ms.
    """
    return sum(
        rate_hz * ((2 + reply) * _BITS_A_CHARACTER / baudrate + _TURNAROUND_S)
        for reply, rate_hz in polls
    )
