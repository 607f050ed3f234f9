"""An accepted answer, and the counters of a bus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

__all__ = ["BusStatistics", "Counts", "Exchange"]

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
