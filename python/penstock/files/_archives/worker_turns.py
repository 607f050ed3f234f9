"""Blocking objects used from a loop: one call at a time, each on a worker thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.files._backend import Operation, current_backend
from penstock.files._detached import run_whole
from penstock.files._file_objects.turns import TakesTurns

T = TypeVar("T")


class WorkerTurns(TakesTurns):
    """Runs functions on worker threads, one at a time, in the order in which they were called.

    A cancelled await returns at once; the function continues, and the next one waits for it.
    """

    def __init__(self) -> None:
        self._turn_taken = False
        self._turn_waiting = None

    @property
    def busy(self) -> bool:
        """Whether a thread may be using what the functions use."""
        return self._turn_taken

    async def work(self, function: Callable[[], T]) -> T:
        """Call ``function`` on a worker thread in its turn; returns or raises as it does."""
        await self._take_turn()
        operation: Operation[T] | None = None
        try:
            operation = current_backend().call(function)
            return await operation
        finally:
            if operation is None:
                self._give_up_turn()
            else:
                operation.when_released(lambda _: self._give_up_turn())

    async def finish(self, function: Callable[[], object]) -> None:
        """The same for closing: a cancellation is raised when ``function`` has returned."""
        await run_whole(lambda _stop: self.work(function))
