"""The digest of what is written, beside the writing of it.

BLAKE2b with 256 bits (RFC 7693), of the standard library. *Rejected:* xxh3-128, which is ten times
as fast and no proof: who changes a file can also choose the change so that the digest stays, and a
signature of such a digest is worth nothing; it would be a dependency besides. *Rejected:* SHA-256,
which is faster only where the processor has instructions for it, and takes three times as long
elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b

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
    speed of bulk writing. At most four pieces of work wait.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def run(self, work: Callable[[], None], size: int) -> None:
        """Do ``work``, which hashes ``size`` bytes, behind all work given before."""
        if size < _WORTH_A_HOP and not self._waiting:
            work()
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "penstock seals")
        self._waiting.append(self._executor.submit(work))
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft().result()

    def wait(self) -> None:
        """Return when all work is done."""
        while self._waiting:
            self._waiting.popleft().result()

    def close(self) -> None:
        """Wait, and end the thread."""
        self.wait()
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
