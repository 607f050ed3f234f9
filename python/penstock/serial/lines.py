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
    """Which lines changed since the wait began, and what else the driver counted meanwhile.

    ``ring`` and ``rlsd_changed`` are RI and CD. ``error`` tells of framing and parity errors and
    overruns; it and ``break_received`` are False where the driver keeps no counts.
    """

    cts_changed: bool = False
    dsr_changed: bool = False
    rlsd_changed: bool = False
    ring: bool = False
    error: bool = False
    break_received: bool = False


@dataclass(frozen=True, slots=True)
class LineActivity:
    """The lines (TIOCM_* bits), and how often CTS, DSR, RI and CD have changed so far.

    The counts are None where the driver keeps none. ``errors`` and ``breaks`` are the receiver's,
    counted from the driver's own beginning.
    """

    lines: int
    counts: tuple[int, ...] | None
    errors: int = 0
    breaks: int = 0
