"""Faults of a simulated port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["FaultPlan"]


@dataclass
class FaultPlan:
    """The faults of one :class:`MockBackend`; change its attributes at any time.

    The counts go down, and ``raise_eio_on_read`` becomes False, as the faults happen. A fault of
    reading wakes a waiting reader.

    Attributes:
        eagain_reads: The next N reads report EAGAIN.
        eagain_writes: The next N writes report EAGAIN.
        eintr_reads: The next N reads are interrupted by a signal and repeated.
        eintr_writes: The next N writes are interrupted by a signal and repeated.
        short_write_max: The most bytes that one write accepts.
        disconnected: Every call reports that the device is gone, until this is False again.
        raise_eio_on_read: The next read fails, as on a tty that was hung up.
        parity_errors: The next N reads raise SerialError and are counted; the port stays usable.
    """

    eagain_reads: int = 0
    eagain_writes: int = 0
    eintr_reads: int = 0
    eintr_writes: int = 0
    short_write_max: int | None = None
    disconnected: bool = False
    raise_eio_on_read: bool = False
    parity_errors: int = 0

    _on_failure: Callable[[], None] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name in ("disconnected", "raise_eio_on_read", "parity_errors") and value:
            wake = getattr(self, "_on_failure", None)
            if wake is not None:
                wake()

    def use(self, name: str) -> bool:
        """Return whether the count ``name`` is above 0, and subtract 1 if so."""
        left: int = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0
