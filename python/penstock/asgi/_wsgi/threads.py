"""A bounded pool of threads with a bounded queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["Threads"]

Job = Callable[[], object]


class _Shared:
    """What the threads know of their pool. They do not hold the pool, so that it can end them."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.lock = threading.Lock()
        self.idle = 0
        self.waiting = 0


class Threads:
    """Runs jobs in threads, which are started as they are needed and stay.

    The threads are daemons: one whose job never ends does not keep the process from ending.

    Args:
        most: The number of threads.
        waiting: Jobs that wait for one.

    Attributes:
        ended: Whether `end` was called.
    """

    def __init__(self, most: int, waiting: int) -> None:
        self._most = most
        self._limit = waiting
        self._shared = _Shared()
        self._threads: list[threading.Thread] = []
        self.ended = False

    def submit(self, job: Job) -> bool:
        """Run a job, which raises nothing. False if too many wait. For one thread at a time."""
        shared = self._shared
        with shared.lock:
            begins_at_once = shared.idle > shared.waiting or len(self._threads) < self._most
            if self.ended or (not begins_at_once and shared.waiting >= self._limit):
                return False
            shared.waiting += 1
            lacks_one = shared.waiting > shared.idle and len(self._threads) < self._most
        shared.jobs.put(job)
        if lacks_one:
            with shared.lock:
                shared.idle += 1
            thread = threading.Thread(
                target=_run,
                args=(shared,),
                name=f"penstock-wsgi-{len(self._threads)}",
                daemon=True,
            )
            self._threads.append(thread)
            thread.start()
        return True

    def end(self) -> None:
        """Let the threads end after their jobs. No job is taken any more."""
        if not self.ended:
            self.ended = True
            for _ in self._threads:
                self._shared.jobs.put(None)

    def join(self, seconds: float) -> bool:
        """Wait until they have ended, in at most so many seconds. Returns whether they have."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def __del__(self) -> None:
        self.end()


def _run(shared: _Shared) -> None:
    while True:
        job = shared.jobs.get()
        if job is None:
            return
        with shared.lock:
            shared.idle -= 1
            shared.waiting -= 1
        job()
        del job
        with shared.lock:
            shared.idle += 1
