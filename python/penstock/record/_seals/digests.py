"""The digests of seals, and the keys that sign them.

Signed seals have BLAKE2b with 256 bits (RFC 7693): a signature of a digest proves something only
where nobody can make another content with the same digest. Seals without a signature tell accident
from intention in no case, since whoever changes the rows can make new seals as well. They have
XXH3 with 128 bits, which finds each accident as surely, and which takes a tenth of the time: with
BLAKE2b, a quarter of the time of writing CSV was hashing. Earlier versions used BLAKE2b for both.
*Rejected:* SHA-256, which is fast only where the processor has instructions for it; CRC-32, which
is too short for a month of data; the package xxhash, a dependency for three hundred lines.

A digest tells by its length of which kind it is.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from penstock._record import xxh3_128
from penstock.record.errors import RecordError, SinkDependencyError

if TYPE_CHECKING:
    from typing_extensions import Buffer


FAST = "xxh3-128"
PROOF = "blake2b-256"
DIGEST_TEXT = rb"[0-9a-f]{32}(?:[0-9a-f]{32})?"
"""A regular expression of a digest in hexadecimal."""

_PROOF_BYTES = 32


class Digest(Protocol):
    """What grows by bytes, as in hashlib."""

    def update(self, data: Buffer, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> Digest: ...


def digest_name(*, signed: bool) -> str:
    """The digest of new seals."""
    return PROOF if signed else FAST


def new_digest(name: str, data: bytes = b"") -> Digest:
    """A digest that begins with ``data``. KeyError for a name that is none of the two."""
    return _DIGESTS[name](data)


def digest_of(name: str, *pieces: bytes) -> bytes:
    """The digest of the pieces together."""
    digest = new_digest(name)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def digest_like(known: bytes) -> str:
    """The name of the digest that ``known`` is one of."""
    return PROOF if len(known) == _PROOF_BYTES else FAST


def _blake2b(data: bytes) -> Digest:
    return blake2b(data, digest_size=_PROOF_BYTES)


_DIGESTS: dict[str, Callable[[bytes], Digest]] = {PROOF: _blake2b, FAST: xxh3_128}


# Hashing beside the writing of what is hashed.

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
        """Do ``work``, which hashes ``size`` bytes, after all work given before."""
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


# Ed25519 signatures of digests (RFC 8032), by the package ``cryptography``.


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise SinkDependencyError(
            "signatures need the package cryptography: pip install 'penstock[sign]'"
        ) from error
    return serialization


class SigningKey:
    """A private key of Ed25519, of a file that ``openssl genpkey -algorithm ed25519`` has written.

    The file has PEM without a password: a recorder runs unattended. Who has it can sign anything,
    so only the recorder may read it.

    Raises:
        RecordError: the file cannot be read, or has another key.
        SinkDependencyError: without the package cryptography.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        serialization = _serialization()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = _loaded(path, lambda data: serialization.load_pem_private_key(data, None))
        if not isinstance(key, Ed25519PrivateKey):
            raise _no_key(path, "it is not an Ed25519 private key")
        self._key = key
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        self.public: bytes = key.public_key().public_bytes(*raw)

    def sign(self, digest: bytes) -> bytes:
        """The signature, 64 bytes. Any thread may call it."""
        return bytes(self._key.sign(digest))


class PublicKey:
    """A public key of Ed25519, of a file that ``openssl pkey -pubout`` has written.

    The private key's file does too. Raises as :class:`SigningKey` does.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        serialization = _serialization()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (
            Ed25519PrivateKey,
            Ed25519PublicKey,
        )

        def load(data: bytes) -> Any:
            if b"PRIVATE KEY" in data:
                return serialization.load_pem_private_key(data, None)
            return serialization.load_pem_public_key(data)

        key = _loaded(path, load)
        if isinstance(key, Ed25519PrivateKey):
            key = key.public_key()
        if not isinstance(key, Ed25519PublicKey):
            raise _no_key(path, "it is not an Ed25519 key")
        self._key = key

    def has_signed(self, digest: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's of ``digest``."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, digest)
        except InvalidSignature:
            return False
        return True


def _loaded(path: str | os.PathLike[str], load: Any) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(Path(path).read_bytes())
    except OSError as error:
        raise _no_key(path, error.strerror or str(error)) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        reason = "it has a password" if isinstance(error, TypeError) else "it is not a key in PEM"
        raise _no_key(path, reason) from error


def _no_key(path: str | os.PathLike[str], reason: str) -> RecordError:
    return RecordError(
        f"the key {os.fspath(path)} cannot be used: {reason}; make one with "
        "openssl genpkey -algorithm ed25519 -out KEY"
    )
