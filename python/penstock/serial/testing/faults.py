"""What shall go wrong on a simulated port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["FaultPlan"]


@dataclass
class FaultPlan:
    """The faults of one :class:`MockBackend`; change its attributes at any time.

    ``eagain_reads``, ``eagain_writes``: so many of the next system calls find nothing ready;
    ``eintr_reads``, ``eintr_writes``: so many are interrupted by a signal, and made again;
    ``short_write_max``: a write takes at most so many bytes;
    ``disconnected``: the device is gone, every call says so, until this is False again;
    ``raise_eio_on_read``: the next read fails, as on a tty that was hung up;
    ``parity_errors``: so many of the next reads raise SerialError, and are counted; the port goes
    on.

    The counts go down, and ``raise_eio_on_read`` turns False, as they are used up. A fault of
    reading wakes who waits to read.
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
        """Whether the count *name* is above 0; takes one off it."""
        left: int = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0
