"""A bounded pool of threads with a bounded queue."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

Job = Callable[[], object]


class _Shared:
    """What the threads know of their pool. They do not hold the pool, so that it can end them."""

    def __init__(self) -> None:
        # Reentrant: the collector may end the pool in any thread, also in one that has the lock.
        self.lock = threading.RLock()
        self.jobs: deque[Job] = deque()
        self.sleeping: list[threading.Lock] = []  # each thread sleeps on a lock of its own
        self.free = 0  # threads that run no job
        self.waking = False
        self.ended = False

    def to_wake(self) -> threading.Lock | None:
        """Return what wakes a thread, if one is to be woken. Called with the lock.

        One at a time: a woken thread that finds more jobs than its own wakes the next one before it
        begins. So jobs that do not wait are run by one thread, without a switch for each of them,
        and a job that waits holds up no other. The last thread that has run is the first to be
        woken, because its memory is still in the processor's caches.
        """
        if self.waking or not self.sleeping:
            return None
        self.waking = True
        return self.sleeping.pop()


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
        sleeping = None
        with shared.lock:
            waiting = len(shared.jobs)
            lacks_one = waiting >= shared.free
            may_start = len(self._threads) < self._most
            if self.ended or (lacks_one and not may_start and waiting >= self._limit):
                return False
            shared.jobs.append(job)
            starts = lacks_one and may_start
            if starts:
                shared.free += 1
            else:
                sleeping = shared.to_wake()
        if sleeping is not None:
            sleeping.release()
        elif starts:
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
        self.ended = True
        shared = self._shared
        with shared.lock:
            shared.ended = True
            sleeping, shared.sleeping = shared.sleeping, []
        for each in sleeping:
            each.release()

    def join(self, seconds: float) -> bool:
        """Wait until they have ended, in at most so many seconds. Returns whether they have."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def __del__(self) -> None:
        self.end()


def _run(shared: _Shared) -> None:
    wakening = threading.Lock()
    wakening.acquire()
    was_woken = has_run = False
    while True:
        job = other = None
        with shared.lock:
            if was_woken:
                shared.waking = was_woken = False
            if has_run:
                has_run = False
                shared.free += 1
            if shared.jobs:
                job = shared.jobs.popleft()
                shared.free -= 1
                if shared.jobs:
                    other = shared.to_wake()
            else:
                shared.sleeping.append(wakening)
                # In this order: the collector may end the pool in between.
                if shared.ended:
                    return
        if job is None:
            wakening.acquire()
            was_woken = True
            continue
        if other is not None:
            other.release()
        job()
        has_run = True
