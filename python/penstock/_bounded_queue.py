"""A queue of limited length between one task that fills it and one that empties it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import anyio

from penstock.overflow import OverflowPolicy

T = TypeVar("T")


class BoundedQueue(Generic[T]):
    """Items in order, at most ``capacity`` of them. For the tasks of one event loop.

    ``weigh`` returns how much of the capacity an item takes, such as the rows of a batch; without
    it every item takes 1. An empty queue accepts an item that is heavier than the capacity.

    ``overflow`` decides what :meth:`put` does if the queue is full. With BLOCK the filling task
    calls :meth:`wait_for_room` before it makes an item; :meth:`put` itself never waits, so an item
    cannot be lost to a cancellation.
    """

    def __init__(
        self,
        capacity: int,
        overflow: OverflowPolicy,
        *,
        weigh: Callable[[T], int] = lambda item: 1,
    ) -> None:
        self._capacity = capacity
        self._overflow = overflow
        self._weigh = weigh
        self._weight = 0
        self._items: deque[T] = deque()
        self._arrived = anyio.Event()
        self._room = anyio.Event()
        self._closed = False
        self._failure: Exception | None = None
        self.dropped = 0
        """The weight of the items that were dropped because the queue was full."""

    def __len__(self) -> int:
        return len(self._items)

    @property
    def weight(self) -> int:
        """How much of the capacity is taken."""
        return self._weight

    def put(self, item: T) -> None:
        """Add an item, or drop what does not fit."""
        items, weight = self._items, self._weigh(item)
        while items and self._weight + weight > self._capacity:
            if self._overflow is OverflowPolicy.DROP_NEWEST:
                self.dropped += weight
                return
            oldest = self._weigh(items.popleft())
            self.dropped += oldest
            self._weight -= oldest
        items.append(item)
        self._weight += weight
        self._arrived.set()

    def put_back(self, items: Sequence[T]) -> None:
        """Put items that :meth:`get` has returned before all others again, even if it is full."""
        self._items.extendleft(reversed(items))
        self._weight += sum(map(self._weigh, items))
        if items:
            self._arrived.set()

    async def wait_for_room(self) -> None:
        """With BLOCK, return when the queue has room; otherwise at once."""
        if self._overflow is OverflowPolicy.BLOCK:
            while self._weight >= self._capacity:
                self._room = anyio.Event()
                await self._room.wait()

    def close(self, failure: Exception | None = None) -> None:
        """Close the queue: no more items are put.

        :meth:`get` returns the waiting items, then raises ``failure`` or StopAsyncIteration.
        """
        self._closed = True
        self._failure = self._failure or failure
        self._arrived.set()

    async def get(self) -> T:
        """Wait for the oldest item and return it. A cancelled call has taken none.

        Raises:
            StopAsyncIteration: the queue is closed and empty.
            Exception: the failure that it was closed with.
        """
        while not self._items:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise StopAsyncIteration
            self._arrived = anyio.Event()
            await self._arrived.wait()
        item = self._items.popleft()
        self._weight -= self._weigh(item)
        self._room.set()
        return item
