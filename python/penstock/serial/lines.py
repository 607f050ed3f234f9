"""Values that tell the state of the modem and control lines."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CommEvent", "ControlLines", "LineActivity", "ModemLines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModemLines:
    """The lines that the other side drives: True where asserted."""

    cts: bool
    dsr: bool
    ri: bool
    cd: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLines:
    """The lines that this side drives: True where asserted."""

    rts: bool
    dtr: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommEvent:
    """Which lines changed, and which conditions arose, since the last look."""

    cts_changed: bool = False
    dsr_changed: bool = False
    rlsd_changed: bool = False
    ring: bool = False
    error: bool = False
    break_received: bool = False


@dataclass(frozen=True, slots=True)
class LineActivity:
    """The lines (TIOCM_* bits), and how often CTS, DSR, RI and CD have changed so far.

    The counts are None where the driver keeps none.
    """

    lines: int
    counts: tuple[int, ...] | None
