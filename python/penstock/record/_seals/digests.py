"""The digests of seals.

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

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from penstock._record import xxh3_128

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "DIGEST_TEXT",
    "FAST",
    "PROOF",
    "Digest",
    "digest_like",
    "digest_name",
    "digest_of",
    "new_digest",
]

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
