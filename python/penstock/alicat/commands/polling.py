"""Measured values: the data frame, chosen statistics (``DV``), and how fast they are streamed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._instrument.reading import ParsedFrame
from penstock.alicat.commands.command import (
    FROM_10V05,
    NUMERIC_FAMILIES,
    Command,
    CommandContext,
    FirmwareRange,
    ReplyIdentity,
    match_reply,
    reply_shape,
    whole,
)
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Statistic

__all__ = [
    "POLL_DATA",
    "REQUEST_DATA",
    "STREAMING_RATE",
    "PollRequest",
    "RequestDataRequest",
    "StreamingRateRequest",
    "StreamingRateResult",
    "decode_frame",
]


_MOST_STATISTICS = 13
_LONGEST_AVERAGING_MS = 9999


def decode_frame(line: bytes, request: object, context: CommandContext) -> ParsedFrame:
    """The data frame that answers a poll and many commands.

    Raises:
        AlicatProtocolError: the line is not a frame of this unit in the format in force.
    """
    if context.decoder is None:
        raise AlicatValidationError(
            f"the data frame of unit {context.unit_id} is not known yet: read its format first"
        )
    return context.decoder(line)


@dataclass(frozen=True, slots=True)
class PollRequest:
    """Ask for one data frame."""


POLL_DATA: Command[PollRequest, ParsedFrame] = Command(
    name="poll_data", token="", wanted="its data frame", decode=decode_frame
)


@dataclass(frozen=True, slots=True)
class RequestDataRequest:
    """Ask for up to 13 statistics, averaged over ``averaging_ms`` (1 to 9999 ms)."""

    statistics: Sequence[Statistic | str | int]
    averaging_ms: int = 1


_ABSENT = re.compile(rb"-{2,}$")
_VALUE = re.compile(rb"[+-]?\d+(?:\.\d*)?$")


def _request_arguments(request: RequestDataRequest, context: CommandContext) -> tuple[str, ...]:
    count = len(request.statistics)
    if not 1 <= count <= _MOST_STATISTICS:
        raise AlicatValidationError(
            f"{count} statistics were requested at once; request 1 to {_MOST_STATISTICS}"
        )
    if not 1 <= request.averaging_ms <= _LONGEST_AVERAGING_MS:
        raise AlicatValidationError(
            f"an averaging time of {request.averaging_ms} ms is not possible; "
            f"choose 1 to {_LONGEST_AVERAGING_MS} ms"
        )
    codes = (str(Statistic.coerce(statistic).code) for statistic in request.statistics)
    return str(request.averaging_ms), *codes


def _decode_values(
    line: bytes, request: RequestDataRequest, context: CommandContext
) -> tuple[float | None, ...]:
    tokens = line.split()
    if len(tokens) != len(request.statistics) or not all(
        _VALUE.match(token) or _ABSENT.match(token) for token in tokens
    ):
        refuse_line(
            line, context.unit_id, wanted=f"the values of {len(request.statistics)} statistics"
        )
    return tuple(None if _ABSENT.match(token) else float(token) for token in tokens)


REQUEST_DATA: Command[RequestDataRequest, tuple[float | None, ...]] = Command(
    name="request_data",
    token="DV",
    wanted="the values of statistics",
    arguments=_request_arguments,
    decode=_decode_values,
    identity=ReplyIdentity.LETTERLESS,
    firmware=FirmwareRange(NUMERIC_FAMILIES),
    patience_s=lambda request: request.averaging_ms / 1000,
)


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
