"""One polled data frame with the times at which it was asked for and received."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from penstock.alicat._instrument.status import StatusCode
from penstock.alicat.registry import Statistic

__all__ = ["FieldSchema", "Reading", "utc_from_unix_ns"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_CODES: frozenset[str] = frozenset()


def utc_from_unix_ns(unix_ns: int) -> datetime:
    """The UTC time of a count of nanoseconds since 1970, cut to microseconds, exactly.

    Not ``datetime.fromtimestamp``: a float of today's seconds has steps of 0.24 µs and rounds.
    """
    return _EPOCH + timedelta(microseconds=unix_ns // 1000)


class FieldSchema(NamedTuple):
    """One field of a device's readings, as known before the first of them."""

    name: str
    kind: Literal["float", "text"]
    unit: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of an instrument at one moment.

    Both stamps of each clock are taken in this process: the request's just before its first byte
    is handed to the port, the reception's just after its last byte was. The instrument measured
    between the two. Use the monotonic clock for intervals: the wall clock is set now and then.
    """

    unit_id: str
    values: Mapping[str, float | str]
    """Field name to value, in the order of the frame. A numeric field that the instrument
    reports as absent (dashes) is ``nan``."""
    units: Mapping[str, str]
    """Field name to the label of its unit, for fields that have one."""
    status: frozenset[StatusCode]
    requested_monotonic_ns: int
    requested_unix_ns: int
    monotonic_ns: int
    """Reception, on the monotonic clock."""
    received_unix_ns: int
    unknown_status: frozenset[str] = _NO_CODES
    """Codes that the instrument advertised and sent and that :class:`StatusCode` does not
    know."""
    names_by_statistic: Mapping[Statistic, str] | None = None

    @property
    def requested_at(self) -> datetime:
        """When the request was sent (UTC)."""
        return utc_from_unix_ns(self.requested_unix_ns)

    @property
    def received_at(self) -> datetime:
        """When the reply was complete (UTC)."""
        return utc_from_unix_ns(self.received_unix_ns)

    @property
    def received_monotonic_ns(self) -> int:
        """Reception, on the monotonic clock; the same as :attr:`monotonic_ns`."""
        return self.monotonic_ns

    @property
    def t_mono_ns(self) -> int:
        """Reception, on the monotonic clock; the same as :attr:`monotonic_ns`."""
        return self.monotonic_ns

    @property
    def latency_s(self) -> float:
        """Seconds from request to reception, on the monotonic clock."""
        return (self.monotonic_ns - self.requested_monotonic_ns) / 1e9

    def get_float(self, name: str) -> float | None:
        """The number in field ``name``, or ``None`` if there is no such field or no number."""
        value = self.values.get(name)
        return value if isinstance(value, float) else None

    def get_statistic(self, statistic: Statistic) -> float | str | None:
        """The value of a quantity, whatever this firmware calls its field; ``None`` if absent."""
        name = (self.names_by_statistic or {}).get(statistic)
        return None if name is None else self.values.get(name)

    def as_dict(self) -> dict[str, float | str]:
        """The values, ``status`` as ``"HLD,MOV"`` and ``received_at`` as ISO 8601 text."""
        return {
            **self.values,
            "status": ",".join(sorted({*self.status, *self.unknown_status})),
            "received_at": self.received_at.isoformat(),
        }
