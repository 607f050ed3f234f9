"""Who is told of alarms, and how often that is tried."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from penstock.record._network.loop_thread import LoopThread
from penstock.record._network.protocol import Away
from penstock.record.alarms.alarm_book import AlarmBook, AlarmBookError

__all__ = ["AlarmDelivery", "Destination", "NeverTaken"]

_LONGEST_AGE_S = 86400.0
_LONGEST_PAUSE_S = 3600.0
_SHELVES_EVERY_S = 1.0


class NeverTaken(Exception):
    """A destination will never take an event."""


class Destination(Protocol):
    """Where events go. Its methods run on one loop, one at a time."""

    async def deliver(self, event: dict[str, Any]) -> None:
        """Return when the event was taken. Away: not now. NeverTaken."""

    async def close(self) -> None:
        """Close the connection."""


class AlarmDelivery:
    """Delivers the events of an alarm book, in order, to each destination for itself.

    An event is tried until it is taken: after ``first_pause`` seconds again, then after twice as
    many and so on, up to an hour. After a day it is given up, and so is one whose receiver is gone;
    ``said`` tells. It runs in a thread of its own, so a receiver that hangs delays nobody.

    Args:
        book: the alarm book.
        destinations: by the names that the book has of them.
        first_pause: seconds.

    Attributes:
        said: sentences about receivers that are away, back or lost, for the recording. Any thread
            may take them.
    """

    def __init__(
        self, book: AlarmBook, destinations: Mapping[str, Destination], first_pause: float = 5.0
    ) -> None:
        self.said: deque[str] = deque(maxlen=100)
        self._book = book
        self._destinations = dict(destinations)
        self._first_pause = first_pause
        self._thread = LoopThread("alarms")
        self._wake: dict[str, asyncio.Event] = {}
        self._hurry: asyncio.Event | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, with what a former run has left. OSError: there can be no thread."""
        self._thread.start()
        self._thread.call(self._start)

    def look(self) -> None:
        """Look for new events. Any thread but the delivery's own."""
        self._thread.call(self._look)

    def close(self, patience: float = 5.0) -> int:
        """Try what waits once more, for ``patience`` seconds in all; how many events are left.

        They are in the book, and the next run delivers them.
        """
        self._thread.call(self._finish, patience)
        self._thread.stop()
        return sum(len(self._book.waiting(name)) for name in self._destinations)

    async def _start(self) -> None:
        self._hurry = asyncio.Event()
        for name, destination in self._destinations.items():
            self._wake[name] = asyncio.Event()
            self._tasks.append(asyncio.create_task(self._deliver_all(name, destination)))
        self._tasks.append(asyncio.create_task(self._end_shelves()))

    async def _look(self) -> None:
        for event in self._wake.values():
            event.set()

    async def _finish(self, patience: float) -> None:
        assert self._hurry is not None
        self._hurry.set()
        await self._look()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                for task in self._tasks[:-1]:
                    await asyncio.shield(task)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for destination in self._destinations.values():
            await destination.close()

    async def _end_shelves(self) -> None:
        while True:
            await asyncio.sleep(_SHELVES_EVERY_S)
            with contextlib.suppress(AlarmBookError):  # said by whoever changes the book next
                if await asyncio.to_thread(self._book.end_shelves):
                    await self._look()

    async def _deliver_all(self, name: str, destination: Destination) -> None:
        """Deliver until there is nothing more and ``_finish`` has begun."""
        assert self._hurry is not None
        while True:
            self._wake[name].clear()
            hurried = self._hurry.is_set()
            for event in self._book.waiting(name):
                if not await self._deliver(name, destination, event):
                    return
            if hurried:
                return
            if not self._book.waiting(name) and not self._hurry.is_set():
                await self._wake[name].wait()

    async def _deliver(self, name: str, destination: Destination, event: dict[str, Any]) -> bool:
        """Deliver one event, or give it up; False when the run ends before."""
        assert self._hurry is not None
        pause, told = self._first_pause, False
        while True:
            hurried = self._hurry.is_set()
            try:
                await destination.deliver(event)
            except NeverTaken as error:
                self.said.append(f"{destination} will not take {event['id']}: {error}")
                break
            except Away as error:
                if time.time() - event["time"] > _LONGEST_AGE_S:
                    self.said.append(f"{destination} has not taken {event['id']} in a day: {error}")
                    break
                if not told:
                    told = True
                    self.said.append(f"{destination} takes no alarms ({error}): tried again")
                if hurried:
                    return False
                wanted = min(max(pause, error.retry_after or 0.0), _LONGEST_PAUSE_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wanted * random.uniform(0.75, 1.25)):
                        await self._hurry.wait()
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                if told:
                    self.said.append(f"{destination} takes alarms again")
                break
        try:
            await asyncio.to_thread(self._book.taken, name, event["id"])
        except AlarmBookError as error:
            self.said.append(str(error))  # it may be told again by the next run
        return True
