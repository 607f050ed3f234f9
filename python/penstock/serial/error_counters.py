"""The driver's counts of what it moved and of what went wrong."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ErrorCounters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCounters:
    """Counts since the driver began, kept in 32 bits (TIOCGICOUNT).

    ``overruns`` are characters that the chip lost because nobody fetched them in time,
    ``buffer_overruns`` those that the kernel lost because nobody read them.
    """

    received: int
    sent: int
    framing_errors: int
    parity_errors: int
    overruns: int
    buffer_overruns: int
    breaks: int

    @property
    def total_errors(self) -> int:
        """Damaged and lost characters together; breaks are not errors."""
        return self.framing_errors + self.parity_errors + self.overruns + self.buffer_overruns
