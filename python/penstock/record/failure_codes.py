"""Polls that fail: why, as one word of a small set, and what of a failing device becomes rows."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Failing", "FailureCode", "failure_code"]

# Why a poll failed, as one word of a small set: the column ``error_code``.
#
# The text of a failure is for people: it names ports, times and remedies, and changes from version
# to version. A program groups and counts failures by their code.


class FailureCode(StrEnum):
    """The kind of a failed poll.

    An exception may have its code as the attribute ``failure_code``. The code of any other
    exception follows from its standard base class.
    """

    ABSENT = "absent"
    """The device has not answered since the recording began."""
    TIMEOUT = "timeout"
    """No complete reply came in time. Any TimeoutError."""
    CONNECTION = "connection"
    """The port or connection cannot be opened, or was lost. Any other OSError."""
    IDENTITY = "identity"
    """Another instrument answers than the one that was opened."""
    REPLY = "reply"
    """The received bytes are not a reply to the request, or were damaged on the line."""
    REJECTED = "rejected"
    """The device has rejected the request."""
    UNIT = "unit"
    """The device measures in another unit than the one it has reported."""
    UNRECORDED = "unrecorded"
    """The reply does not fit into a row."""
    OTHER = "other"
    """Any other failure, such as an exception of your own source."""


def failure_code(error: BaseException | None) -> FailureCode:
    """The code of a failed poll with this error; ``None`` is a poll without a reply."""
    told = getattr(error, "failure_code", None)
    if isinstance(told, str):
        try:
            return FailureCode(told)
        except ValueError:
            return FailureCode.OTHER
    if error is None or isinstance(error, TimeoutError):
        return FailureCode.TIMEOUT
    return FailureCode.CONNECTION if isinstance(error, OSError) else FailureCode.OTHER


# A device that fails: what of it becomes rows, and what is only counted.
#
# A device that is unplugged for a night fails hundreds of thousands of times in the same way. The
# first failure of each kind is a row; the others are counted, and reported in one event when the
# device answers again. *Rejected:* a row for each change of the code. A lost instrument fails by
# turns with ``connection`` and ``timeout``, for as long as it is asked again.


class Failing:
    """The failed polls of one device since its last answer."""

    __slots__ = ("_repeated", "missed")

    def __init__(self) -> None:
        self._repeated: dict[FailureCode, int] = {}
        self.missed: int = 0
        """Slots that passed meanwhile."""

    def is_repeated(self, code: FailureCode) -> bool:
        """Count a failed poll; whether one with this code was there before."""
        if code in self._repeated:
            self._repeated[code] += 1
            return True
        self._repeated[code] = 0
        return False

    @property
    def repeated(self) -> int:
        """The failed polls that were not the first of their code."""
        return sum(self._repeated.values())

    def __str__(self) -> str:
        """``171 more polls failed (connection 150, timeout 21)``."""
        counts = ", ".join(f"{code} {count}" for code, count in self._repeated.items() if count)
        polls = "poll" if self.repeated == 1 else "polls"
        return f"{self.repeated} more {polls} failed ({counts})"
