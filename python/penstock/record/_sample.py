"""One row of a recording as an object, for programs that use a few of them; timed answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic_ns, time_ns

from penstock.record._source import FieldValue

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_NS = 86_400_000_000_000


def to_utc_ns(moment: datetime) -> int:
    """Nanoseconds since the epoch of an aware datetime, exactly (a float would lose digits)."""
    since = moment - _EPOCH
    return since.days * _DAY_NS + since.seconds * 1_000_000_000 + since.microseconds * 1000


def from_utc_ns(nanoseconds: int) -> datetime:
    """The UTC datetime of a nanosecond stamp, rounded down to a microsecond."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


@dataclass(frozen=True, slots=True)
class Sample:
    """One poll of one device: a reply or an error; or an event.

    ``t_utc`` and ``t_mono_ns`` are the moment of reception on the wall clock and on the monotonic
    clock. ``latency_s`` is reception minus request on the monotonic clock, in seconds. ``status``
    is the codes joined by commas (``"HLD,MOV"``), None for a failed poll. ``values`` holds only
    the fields that the device sent; it is empty for a failed poll.

    ``late_s`` is how long after its slot was due the poll began, ``first_byte_s`` how long after
    the request the first byte came; both are None where that is not known. ``event`` and
    ``message`` are the kind and the text of an event, and None for a sample. The ``device`` of an
    event that concerns the whole recording is empty. ``error_code`` is the
    :class:`~penstock.record.FailureCode` of a failed poll.
    """

    device: str
    unit_id: str | None
    t_utc: datetime
    t_mono_ns: int
    requested_at: datetime
    received_at: datetime
    latency_s: float
    values: Mapping[str, FieldValue]
    status: str | None = None
    error: str | None = None
    late_s: float | None = None
    first_byte_s: float | None = None
    event: str | None = None
    message: str | None = None
    error_code: str | None = None

    @property
    def ok(self) -> bool:
        """True when the device answered."""
        return self.error is None and self.event is None


# A result for sources without a type of their own: time stamps around one question.


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
