"""Why a poll failed, as one word of a small set: the column ``error_code``.

The text of a failure is for people: it names ports, times and remedies, and changes from version to
version. A program groups and counts failures by their code.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["FailureCode", "failure_code"]


class FailureCode(StrEnum):
    """The kind of a failed poll.

    An exception tells its own by an attribute ``failure_code``; the codes of others follow from the
    standard exceptions that they are.
    """

    ABSENT = "absent"
    """The device has not answered since the recording began."""
    TIMEOUT = "timeout"
    """No complete reply came in time. Each TimeoutError."""
    CONNECTION = "connection"
    """The port or connection cannot be opened, or was lost. Each other OSError."""
    IDENTITY = "identity"
    """Another instrument answers than the one that was opened."""
    REPLY = "reply"
    """Bytes came that are no reply to the question, or were damaged on the line."""
    REJECTED = "rejected"
    """The device has refused the question."""
    UNIT = "unit"
    """The device counts in another unit than it has told."""
    UNRECORDED = "unrecorded"
    """A reply came that no row can hold."""
    OTHER = "other"
    """Anything else, such as an exception of a source of your own."""


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
