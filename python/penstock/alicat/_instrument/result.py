"""The result of one question to one of many devices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from time import monotonic_ns, time_ns
from typing import Generic, TypeVar

from penstock.alicat._frames.reading import Reading, utc_from_unix_ns
from penstock.alicat.errors import AlicatError

__all__ = ["DeviceResult", "ErrorPolicy"]

T = TypeVar("T")


class ErrorPolicy(Enum):
    """What a manager does with the failures of its devices."""

    RAISE = "raise"
    """Finish with every device, then raise an ``ExceptionGroup`` of the failures."""
    RETURN = "return"
    """Return every device's result; failures are in :attr:`DeviceResult.error`."""


@dataclass(frozen=True, slots=True)
class DeviceResult(Generic[T]):
    """A value or the error in its place, with the times of both ends.

    For a value: when it was requested and received. For an error: when the device's turn came and
    when it failed.
    """

    value: T | None
    error: AlicatError | None
    requested_monotonic_ns: int
    requested_unix_ns: int
    received_monotonic_ns: int
    received_unix_ns: int

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.error is None

    @property
    def requested_at(self) -> datetime:
        """When it was asked for (UTC)."""
        return utc_from_unix_ns(self.requested_unix_ns)

    @property
    def received_at(self) -> datetime:
        """When it was received or failed (UTC)."""
        return utc_from_unix_ns(self.received_unix_ns)

    @classmethod
    def of_reading(cls, reading: Reading) -> DeviceResult[Reading]:
        """The result of a reading."""
        return DeviceResult(
            reading,
            None,
            reading.requested_monotonic_ns,
            reading.requested_unix_ns,
            reading.monotonic_ns,
            reading.received_unix_ns,
        )

    @classmethod
    def failure(
        cls, error: AlicatError, *, requested_monotonic_ns: int, requested_unix_ns: int
    ) -> DeviceResult[T]:
        """The result of a question that has just failed."""
        return cls(
            None, error, requested_monotonic_ns, requested_unix_ns, monotonic_ns(), time_ns()
        )
