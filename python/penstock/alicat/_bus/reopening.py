"""Reopens a lost line, at once and then after growing pauses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from penstock.alicat._bus.retry_delay import RetryDelay
from penstock.alicat._bus.waiting import Waiting
from penstock.alicat._bus.wire import LOST, Wire
from penstock.alicat.errors import AlicatConnectionError, AlicatError, ErrorContext
from penstock.alicat.transport import Transport

__all__ = ["reopened_line", "retry_delay"]

_FIRST_RETRY_S: Final = 0.25
_LAST_RETRY_S: Final = 10.0
_TIMEOUT_S: Final = 5.0


def retry_delay() -> RetryDelay:
    """The pauses between the tries to open one line."""
    return RetryDelay(_FIRST_RETRY_S, _LAST_RETRY_S)


async def reopened_line(
    wire: Wire,
    waiting: Waiting,
    retry: RetryDelay,
    reconnect: Callable[[], Awaitable[Transport]] | None,
) -> Transport:
    """A new transport in place of a lost one, which is closed.

    Raises:
        AlicatConnectionError: it cannot be opened, it is too early to try again, or ``wire`` was
            closed by its owner, before this call or during it.
    """
    if wire.closed or reconnect is None:
        raise wire.lost(None)
    if (wait := retry.remaining()) > 0:
        raise AlicatConnectionError(
            f"the connection to {wire.label} is lost ({wire.failure}); it is tried again "
            f"in {wait:.1f} s",
            context=ErrorContext(port=wire.label),
        )
    transport: Transport | None = None
    try:
        with waiting.scope(shield=True), suppress(*LOST):
            await wire.transport.aclose()
        with waiting.scope(deadline=waiting.now() + _TIMEOUT_S):
            transport = await reconnect()
        if transport is None:
            raise TimeoutError(f"it was not open within {_TIMEOUT_S:g} s")
    except (AlicatError, *LOST) as error:
        retry.failed()
        if isinstance(error, AlicatError):
            raise
        raise wire.lost(error) from error
    if _was_closed(wire):
        with waiting.scope(shield=True):
            await transport.aclose()
        raise wire.lost(None)
    return transport


def _was_closed(wire: Wire) -> bool:
    # In a function, as the type checker holds that no await can change what it has seen.
    return wire.closed
