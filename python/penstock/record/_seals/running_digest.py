"""The digest of what is written, beside the writing of it.

BLAKE2b with 256 bits (RFC 7693), of the standard library. *Rejected:* xxh3-128, which is ten times
as fast and no proof: who changes a file can also choose the change so that the digest stays, and a
signature of such a digest is worth nothing; it would be a dependency besides. *Rejected:* SHA-256,
which is faster only where the processor has instructions for it, and takes three times as long
elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from queue import SimpleQueue

__all__ = ["DIGEST_BYTES", "DIGEST_NAME", "DigestThread", "digest_of"]

DIGEST_NAME = "blake2b-256"
DIGEST_BYTES = 32

# A hop to a thread costs as much as hashing this. From 2 KiB on, hashlib releases the GIL.
_WORTH_A_HOP = 65_536
_MOST_WAITING = 4


def digest_of(*pieces: bytes) -> bytes:
    """The digest of the pieces together."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


class DigestThread:
    """Runs the work of one chain of digests in order: large work in a thread, small at once.

    Text is made and written about as fast as it is hashed, so hashing it in turn would halve the
    speed of bulk writing. At most four pieces of work wait: what waits is memory that the writer
    cannot use again, and beyond the processor's cache new memory costs more than the hop.
    *Rejected:* an executor, whose futures cost three times as much as a lock and a queue in C.
    """

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Callable[[], None], threading.Lock] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting: deque[threading.Lock] = deque()
        self._failure: BaseException | None = None

    def run(self, work: Callable[[], None], size: int) -> None:
        """Do ``work``, which hashes ``size`` bytes, behind all work given before."""
        if size < _WORTH_A_HOP and not self._waiting:
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
