"""Blocking iterators made asynchronous: :class:`Batches`."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

from anyio.abc import AsyncResource

from penstock._core import ReadyValue
from penstock.files._backend import FileBackend, current_backend

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

_FIRST_WEIGHT = 64
_LARGEST_WEIGHT = 2048
_LONGEST = 0.01  # seconds


def _one(_: object) -> int:
    return 1


class Batches(AsyncIterator[T], AsyncResource, Generic[T]):
    """Iterate asynchronously over a blocking iterator, which runs on a worker thread.

    The worker takes a batch at a time: at most 2048 items, and no further one after 10 ms. So the
    memory is bounded, however many items there are, and the iterator runs ahead of the program by
    no more than that.

    Cancellation: a cancelled ``__anext__`` returns at once, and ends the iteration; what the worker
    has taken meanwhile is lost. A further ``__anext__`` raises RuntimeError.
    """

    def __init__(
        self, make: Callable[[], Iterator[T]], *, weight: Callable[[T], int] = _one
    ) -> None:
        """Iterate over ``make()``, which a worker calls; ``weight`` counts one item as several."""
        self._make: Callable[[], Iterator[T]] | None = make
        self._source: Iterator[T] | None = None
        self._weigh = weight
        self._weight = _FIRST_WEIGHT
        self._ready: deque[T] = deque()
        self._error: BaseException | None = None
        self._backend: FileBackend | None = None
        self._at_end = False
        self._waiting = False
        self._cancelled = False

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[T]:
        if self._ready:
            return ReadyValue(self._ready.popleft())
        return self._next()

    async def aclose(self) -> None:
        """End the iteration; what the iterator holds is released, once the worker has left it."""
        self._at_end = True
        self._source = None
        self._make = None
        self._ready.clear()

    async def _next(self) -> T:
        if self._cancelled:
            raise RuntimeError("this iteration ended when it was cancelled; begin a new one")
        if self._waiting:
            raise RuntimeError("another task is waiting for the next item of this iteration")
        if self._backend is None:
            self._backend = current_backend()
        if not self._at_end and self._error is None:
            self._waiting = True
            try:
                await self._backend.call(self._take)
            except BaseException:
                self._cancelled = True
                await self.aclose()
                raise
            finally:
                self._waiting = False
            self._weight = min(2 * self._weight, _LARGEST_WEIGHT)
        if self._ready:
            return self._ready.popleft()
        error, self._error = self._error, None
        await self.aclose()
        if error is None:
            raise StopAsyncIteration
        try:
            raise error
        finally:
            del error  # the traceback would refer to itself

    def _take(self) -> None:
        """Take a batch, on the worker. The loop's thread reads none of it meanwhile."""
        try:
            if self._source is None:
                make = self._make
                if make is None:
                    return
                self._source = make()
            source = self._source
            ready: list[T] = []
            left, end = self._weight, monotonic() + _LONGEST
            try:
                while left > 0:
                    ready.append(item := next(source))
                    left -= self._weigh(item)
                    if monotonic() > end:
                        break
            except StopIteration:
                self._at_end = True
            finally:
                if not self._cancelled:
                    self._ready.extend(ready)
        except Exception as error:
            self._error = error
