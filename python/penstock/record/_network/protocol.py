"""What a protocol adds to a spool: the bytes of rows, and the way to the other side."""

from __future__ import annotations

import ssl
from typing import Protocol

from penstock.record._columns.batch import SampleBatch
from penstock.record._network.server import describe_distrust


class Away(Exception):
    """The other side does not take a payload now. The same payload is sent again, later.

    Attributes:
        retry_after: seconds that the other side asks for; None leaves them to the sender.
        lost_at: when the connection has ended, by the monotonic clock; None: now. A transport with
            a ``lag`` says so even where the next connection is there already.
    """

    def __init__(
        self, reason: str, retry_after: float | None = None, lost_at: float | None = None
    ) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.lost_at = lost_at


class Misconfigured(Away):
    """The other side answers, and refuses: a token, a name or an address is wrong.

    Found at ``open`` it ends the attempt. Later it is tried again, rarely: somebody may mend it.
    """


class Encoder(Protocol):
    """Makes payloads of rows. Called by one thread at a time.

    What a payload holds is decided here, before it is spooled: also a time stamp that is moved to
    make a row unique. So a replay sends the same bytes.
    """

    kind: bytes
    """Four letters, in front of each payload in the spool."""

    @property
    def size(self) -> int:
        """The bytes that wait, about."""

    def add(self, batch: SampleBatch) -> None:
        """Let rows wait."""

    def take(self) -> list[tuple[int, bytes]]:
        """The payloads of all rows that wait, each with the number of its rows."""


class Transport(Protocol):
    """The way to the other side. Its methods run on the sink's own loop, one at a time.

    Attributes:
        lag: seconds in which the other side may lose a payload that it has taken; 0 where its
            answer means that it keeps it.
        grace: seconds of that for which the end of a recording waits.
    """

    lag: float
    grace: float

    async def check(self) -> None:
        """Be ready to send, and ask whether the other side would take rows.

        Raises:
            Misconfigured: it never will.
            Away: it does not answer; it may later.
        """

    async def probe(self) -> None:
        """As ``check``, and nobody notices: a recorder may be running with the same names.

        Nothing is made, said, or taken over on the other side.
        """

    async def send(self, payload: bytes) -> int:
        """Return when the other side has taken the payload; how many of its rows it has refused.

        A refused row is kept somewhere by the transport, named, and never sent again. Cancellation:
        the payload may have arrived, or not.

        Raises:
            Away: as a whole or in part it may not have arrived.
        """

    async def close(self) -> None:
        """Close the connection."""

    def __str__(self) -> str:
        """The other side, without secrets."""


# What a failed connection means for the sender of a spool.


def as_away(
    error: BaseException, timeout: float, malformed: tuple[type[Exception], ...]
) -> Away | None:
    """The error of a transport for an exception that ended an exchange; None for any other.

    ``malformed`` are the exceptions of an answer that the protocol does not have. ``timeout`` is
    the time-out of the exchange, in seconds.
    """
    if isinstance(error, TimeoutError):
        return Away(f"no answer within {timeout:g} s")
    if isinstance(error, EOFError):
        return Away("the connection was closed before an answer came")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Misconfigured(describe_distrust(error))
    if isinstance(error, (OSError, *malformed)):
        return Away(" ".join(str(error).split()) or type(error).__name__)
    return None
