"""A result for sources without a type of their own: time stamps around one question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic_ns, time_ns

from penstock.record._sampling.sample import from_utc_ns
from penstock.record._sampling.source import FieldValue

__all__ = ["PollResult", "PolledReading", "poll_timed"]


@dataclass(frozen=True, slots=True)
class PolledReading:
    """The values of one reply by field name, and its status codes."""

    values: Mapping[str, FieldValue]
    status: Collection[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class PollResult:
    """A reading or the error in its place, with the times of both ends on both clocks."""

    value: PolledReading | None
    error: Exception | None
    requested_monotonic_ns: int
    requested_unix_ns: int
    received_monotonic_ns: int
    received_unix_ns: int
    first_byte_monotonic_ns: int | None = None

    @property
    def requested_at(self) -> datetime:
        """When it was asked for (UTC)."""
        return from_utc_ns(self.requested_unix_ns)

    @property
    def received_at(self) -> datetime:
        """When it was complete, or given up (UTC)."""
        return from_utc_ns(self.received_unix_ns)


async def poll_timed(ask: Callable[[], Awaitable[Mapping[str, FieldValue]]]) -> PollResult:
    """Call ``ask`` for the values of one device and stamp both ends.

    An exception of ``ask`` becomes the error of the result. A cancellation is raised.
    """
    asked_ns, asked_unix_ns = monotonic_ns(), time_ns()
    value: PolledReading | None = None
    failure: Exception | None = None
    try:
        value = PolledReading(await ask())
    except Exception as error:
        failure = error
    return PollResult(value, failure, asked_ns, asked_unix_ns, monotonic_ns(), time_ns())
