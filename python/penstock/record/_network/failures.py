"""What a failed connection means for the sender of a spool."""

from __future__ import annotations

import ssl

from penstock.record._network.certificates import describe_distrust
from penstock.record._network.protocol import Away, Misconfigured

__all__ = ["as_away"]


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
