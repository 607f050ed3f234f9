"""How much of a recording a crash or a power cut may lose."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["LossWindow"]


@dataclass(frozen=True, slots=True)
class LossWindow:
    """The rows that a sink may lose: the last accepted ones, limited in number and age.

    It holds for SIGKILL, and for a power cut as far as the disk keeps what fsync(2) promises. A
    sink syncs half a window after a row was accepted; a disk that takes longer than the other half
    exceeds it.

    Attributes:
        seconds: None sets no bound in time; 0 makes each call of ``write_*`` durable.
        rows: None sets no bound in rows; 0 makes each call of ``write_*`` durable. A call that
            goes beyond it returns once all rows so far are durable.
    """

    seconds: float | None = 1.0
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(
                f"a loss window takes at least 0 seconds, or None for no bound, "
                f"not {self.seconds!r}"
            )
        if self.rows is not None and self.rows < 0:
            raise ValueError(
                f"a loss window takes at least 0 rows, or None for no bound, not {self.rows!r}"
            )

    def is_full(self, rows_at_risk: int) -> bool:
        """True when ``rows_at_risk`` rows that are not durable are more than allowed."""
        if self.seconds == 0:
            return rows_at_risk > 0
        return self.rows is not None and rows_at_risk > self.rows
