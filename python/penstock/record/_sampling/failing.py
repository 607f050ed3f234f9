"""A device that fails: what of it becomes rows, and what is only counted.

A device that is unplugged for a night fails hundreds of thousands of times in the same way. The
first failure of each kind is a row; the others are counted, and told in one event when the device
answers again. *Rejected:* a row for each change of the code. A lost instrument fails by turns with
``connection`` and ``timeout``, for as long as it is asked again.
"""

from __future__ import annotations

from penstock.record.failure_codes import FailureCode

__all__ = ["Failing"]


class Failing:
    """The failed polls of one device since its last answer."""

    __slots__ = ("_repeated", "missed")

    def __init__(self) -> None:
        self._repeated: dict[FailureCode, int] = {}
        self.missed = 0
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
