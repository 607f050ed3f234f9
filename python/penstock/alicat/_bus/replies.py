"""An accepted answer, the lines that are none, and the counters of a bus.

A parser accepts one form. For every other line it calls :func:`refuse_line`, which determines the
unit and the meaning of the line and raises the matching error. By the class of that error, the
client decides whether the line may be skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, NamedTuple, NoReturn, TypeVar

from penstock.alicat.errors import (
    AlicatCommandRejectedError,
    AlicatParseError,
    AlicatStreamingModeError,
    AlicatUnitIdMismatchError,
    ErrorContext,
    InvalidUnitIdError,
)

T = TypeVar("T")


class Exchange(NamedTuple, Generic[T]):
    """An accepted answer and when it was asked and complete, on both clocks, in nanoseconds."""

    value: T
    requested_monotonic_ns: int
    requested_unix_ns: int
    received_monotonic_ns: int
    received_unix_ns: int


@dataclass(frozen=True, slots=True)
class BusStatistics:
    """What happened on a bus since it was opened."""

    exchanges: int
    """Answers accepted."""
    timeouts: int
    """Questions without an answer in time."""
    malformed: int
    """Questions that ended with a line of the wrong form or unit."""
    resyncs: int
    """Debts that had to be settled before a unit could be asked again."""
    discarded_lines: int
    """Discarded lines: late, foreign, echoed or garbled."""
    reconnects: int = 0
    """The number of times that the line was lost and reopened."""


@dataclass(slots=True)
class Counts:
    """The counters of a bus, over all its connections."""

    exchanges: int = 0
    timeouts: int = 0
    malformed: int = 0
    resyncs: int = 0
    discarded: int = 0
    reconnects: int = 0


_REJECTION = re.compile(rb"(?:([A-Za-z])\s+)?\?$")
_NOT_ENABLED = re.compile(rb"([A-Za-z])\s+Feature Not Enabled$", re.IGNORECASE)
_PLACEHOLDER = re.compile(rb"([A-Za-z])\s+(?:[+-]?0+(?:\.0*)?\s+)?1\s+-{2,}$")
# A streaming instrument gives up its letter: 10v20 sends a space in its place (stripped as
# framing), other firmware '@'.
_STREAMED = re.compile(rb"@\s|[+-]?\d+\.\d*\s+[+-]?\d")
_HEAD = re.compile(rb"([A-Za-z])(?:\s|$)")


def check_unit_id(unit_id: str) -> str:
    """The unit id in upper case.

    Raises:
        InvalidUnitIdError: it is not one letter A to Z.
    """
    given: object = unit_id
    if isinstance(given, str) and len(given) == 1 and given.isascii() and given.isalpha():
        return given.upper()
    raise InvalidUnitIdError(
        f"{unit_id!r} is not a unit id: it is one letter A to Z, as shown in the instrument's menu"
    )


def refuse_line(line: bytes, unit_id: str, *, wanted: str) -> NoReturn:
    """Raise the error for ``line``, where ``wanted`` was expected.

    Raises:
        AlicatCommandRejectedError: ``?``, ``A ?``, ``Feature Not Enabled`` or the placeholder
            ``1 ---`` for a quantity that the instrument does not have.
        AlicatUnitIdMismatchError: a reply of another unit.
        AlicatStreamingModeError: a frame of an instrument that streams.
        AlicatParseError: none of these.
    """
    context = ErrorContext(unit_id=unit_id, raw_response=line)
    rejection = _REJECTION.match(line) or _NOT_ENABLED.match(line) or _PLACEHOLDER.match(line)
    author = rejection[1] if rejection else None
    if author is None and not rejection:
        head = _HEAD.match(line)
        author = head[1] if head else None
    if author is not None and author.upper() != unit_id.encode():
        other = author.decode().upper()
        raise AlicatUnitIdMismatchError(
            f"unit {unit_id} was asked for {wanted}, and unit {other} answered {line!r}: check "
            "that every instrument on the bus has its own unit id",
            expected=unit_id,
            actual=other,
            context=context,
        )
    if rejection:
        raise AlicatCommandRejectedError(
            f"unit {unit_id} does not accept the command for {wanted}: it answered {line!r}",
            context=context,
        )
    if _STREAMED.match(line):
        raise AlicatStreamingModeError(
            f"an instrument on this port is streaming ({line[:40]!r}), so unit {unit_id} cannot "
            "be asked: stop it with stop_stream(), or open it with recover_from_stream=True",
            context=context,
        )
    raise AlicatParseError(
        f"unit {unit_id}: {line!r} is not {wanted}",
        field_name=wanted,
        expected=wanted,
        actual=line,
        context=context,
    )
