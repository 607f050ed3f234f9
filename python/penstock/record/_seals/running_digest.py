"""Hashing beside the writing of what is hashed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from penstock.record._seals.digests import PROOF

__all__ = ["DigestThread"]

# A hop to a thread costs as much as hashing this. From 2 KiB on, hashlib releases the GIL.
_WORTH_A_HOP = 65_536
_MOST_WAITING = 4


class DigestThread:
    """Runs the work of one chain of digests in order: large work of BLAKE2b in a thread.

    Text is made and written about as fast as BLAKE2b hashes it, so hashing it in turn would halve
    the speed of bulk writing. XXH3 takes less time than the hop. At most four pieces of work wait:
    what waits is memory that the writer cannot use again, and beyond the processor's cache new
    memory costs more than the hop. *Rejected:* an executor, whose futures cost three times as much
    as a lock and a queue in C.
    """

    def __init__(self, digest: str) -> None:
        self._is_slow = digest == PROOF
        self._work: SimpleQueue[tuple[Callable[[], None], threading.Lock] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting: deque[threading.Lock] = deque()
        self._failure: BaseException | None = None

    def run(self, work: Callable[[], None], size: int) -> None:
        """Do ``work``, which hashes ``size`` bytes, behind all work given before."""
        if not self._waiting and not (self._is_slow and size >= _WORTH_A_HOP):
            work()
            return
        if self._thread is None:
            # A sink that is never closed must not keep the process from its end.
            self._thread = threading.Thread(target=self._run, name="penstock seals", daemon=True)
            self._thread.start()
        done = threading.Lock()
        done.acquire()
        self._waiting.append(done)
        self._work.put((work, done))
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft().acquire()
        self._raise_failure()

    def wait(self) -> None:
        """Return when all work is done."""
        while self._waiting:
            self._waiting.popleft().acquire()
        self._raise_failure()

    def close(self) -> None:
        """End the thread when all work is done."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
            self._thread = None
        self.wait()

    def _run(self) -> None:
        while (given := self._work.get()) is not None:
            work, done = given
            try:
                work()
            except BaseException as error:
                self._failure = error
            del given, work  # the bytes go before anybody goes on
            done.release()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
