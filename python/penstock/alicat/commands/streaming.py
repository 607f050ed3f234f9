"""How fast an instrument streams."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.alicat.commands.arguments import FROM_10V05, whole
from penstock.alicat.commands.command import Command, CommandContext, match_reply, reply_shape

__all__ = ["STREAMING_RATE", "StreamingRateRequest", "StreamingRateResult"]

_SLOWEST_MS = 65_535


@dataclass(frozen=True, slots=True)
class StreamingRateRequest:
    """Send a frame every ``rate_ms`` while streaming; 0: as fast as the line takes them.

    ``None`` asks.
    """

    rate_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StreamingRateResult:
    """The time between two streamed frames, in milliseconds."""

    unit_id: str
    rate_ms: int


_RATE = reply_shape(rb"(\d{1,5})")


def _arguments(request: StreamingRateRequest, context: CommandContext) -> tuple[str, ...]:
    if request.rate_ms is None:
        return ()
    return (whole(request.rate_ms, 0, _SLOWEST_MS, "rate_ms"),)


def _decode(
    line: bytes, request: StreamingRateRequest, context: CommandContext
) -> StreamingRateResult:
    match = match_reply(_RATE, line, context, STREAMING_RATE.wanted)
    return StreamingRateResult(context.unit_id, int(match[2]))


STREAMING_RATE: Command[StreamingRateRequest, StreamingRateResult] = Command(
    name="streaming_rate",
    token="NCS",
    wanted="its streaming interval",
    arguments=_arguments,
    decode=_decode,
    firmware=FROM_10V05,
    changes=lambda request: request.rate_ms is not None,
    saves=lambda request: request.rate_ms is not None,
)
