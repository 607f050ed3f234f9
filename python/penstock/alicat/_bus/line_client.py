"""What every client of a line has: who waits for it, whether it is open, its counts, its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.alicat._bus.replies import BusStatistics, Counts
from penstock.alicat._bus.scheduler import BusScheduler
from penstock.alicat._bus.waiting import Waiting
from penstock.alicat._bus.wire import Wire, reopened_line, retry_delay
from penstock.alicat.transport import Transport

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class LineClient:
    """A client of one line, which may be lost and opened again.

    What it asks, and how it knows an answer, is added by a subclass, whose ``_use`` makes the wire.

    Args:
        reconnect: Opens the line again after it was lost. Without it, a lost line stays lost.
        waiting: The primitives that its coroutines wait with.
    """

    _wire: Wire

    def __init__(
        self, reconnect: Callable[[], Awaitable[Transport]] | None, waiting: Waiting
    ) -> None:
        self._reconnect = reconnect
        self._waiting = waiting
        self._scheduler = BusScheduler(waiting)
        self._counts = Counts()
        self._retry = retry_delay()
        self._generation = 0

    def _use(self, transport: Transport) -> None:
        """Reset everything that is known about the line."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The port's name."""
        return self._wire.label

    @property
    def waiting(self) -> Waiting:
        """The primitives that its coroutines wait with."""
        return self._waiting

    @property
    def generation(self) -> int:
        """How often the line was opened again. What is known about a unit is valid for one value.

        After that, an instrument must identify itself again.
        """
        return self._generation

    @property
    def is_open(self) -> bool:
        """Whether questions can be asked: the line is neither closed nor lost."""
        return self._wire.usable

    @property
    def can_reopen(self) -> bool:
        """Whether :meth:`reopen` knows how to open the line again."""
        return self._reconnect is not None and not self._wire.closed

    @property
    def statistics(self) -> BusStatistics:
        """What happened on this line so far."""
        counts = self._counts
        return BusStatistics(
            counts.exchanges,
            counts.timeouts,
            counts.malformed,
            counts.resyncs,
            counts.discarded,
            counts.reconnects,
        )

    async def reopen(self) -> None:
        """Open the line again if it was lost; does nothing while it is open.

        After a failure the next try is made 0.25 s later at the earliest, then 0.5 s, and so on up
        to 10 s; a call before that time fails at once. All debts and proofs are dropped and
        :attr:`generation` increases: the instruments must identify themselves again.

        Raises:
            AlicatConnectionError: the line cannot be opened (yet), or the client is closed.
        """
        if self._wire.usable:
            return
        async with self._turn(0):
            wire = self._wire
            if wire.usable:
                return
            self._use(await reopened_line(wire, self._waiting, self._retry, self._reconnect))
            self._generation += 1
            self._counts.reconnects += 1

    def line_is_good(self) -> None:
        """Record that an instrument has answered: the next loss is retried at once."""
        self._retry.succeeded()

    async def aclose(self) -> None:
        """Close the port. May be called more than once."""
        self._wire.closed = True
        await self._wire.transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    @asynccontextmanager
    async def _turn(self, unit: int) -> AsyncGenerator[None, None]:
        """Take the line for more than one question."""
        if not self._scheduler.try_acquire(unit):
            await self._scheduler.acquire(unit)
        try:
            yield
        finally:
            self._scheduler.release()
