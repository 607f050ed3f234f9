"""What a port requires of the device that it drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.serial._tty.system_calls import PendingIoctl
from penstock.serial._values import (
    ControlLines,
    ErrorCounters,
    LineActivity,
    ModemLines,
    SerialCapabilities,
)
from penstock.serial.config import SerialConfig


class SerialBackend(Protocol):
    """An open serial device, real or simulated, without an event loop.

    ``read``, ``readinto``, ``write``, the counts, the discards and ``begin_…`` are called on the
    event loop's thread and never block: instead they raise BlockingIOError. The other methods are
    called in worker threads. Every other error is a SerialError, or an OSError that
    ``errno_to_exception`` understands.

    The first three are attributes, not methods, so that a device can provide C functions, which
    saves a Python frame for every byte received.

    Attributes:
        path: The path or URL as it was given.
        config: The settings in force.
        capabilities: What the device supports. The first look may ask it.
        is_plain_descriptor: Whether ``read``, ``readinto`` and ``write`` are only the system calls
            on ``fileno()``, which the event loop may then make itself.
        never_blocks: Whether closing needs no worker thread.

    ``forget_threads`` is called in a forked child, to replace what a thread of the parent may hold.
    """

    path: str
    config: SerialConfig
    is_plain_descriptor: bool
    read: Callable[[int], bytes]
    readinto: Callable[[memoryview], int]
    write: Callable[[bytes | memoryview], int]

    @property
    def capabilities(self) -> SerialCapabilities: ...
    @property
    def never_blocks(self) -> bool: ...
    @property
    def actual_baudrate(self) -> int: ...
    def fileno(self) -> int: ...
    def configure(self, config: SerialConfig) -> None: ...
    def modem_lines(self) -> ModemLines: ...
    def control_lines(self) -> ControlLines: ...
    def set_control_lines(self, rts: bool | None, dtr: bool | None) -> None: ...
    def set_break(self, on: bool) -> None: ...
    def input_waiting(self) -> int: ...
    def output_waiting(self) -> int: ...
    def discard_input(self) -> None: ...
    def discard_output(self) -> None: ...
    def transmitter_is_empty(self) -> bool | None: ...
    def error_counters(self) -> ErrorCounters: ...
    def line_activity(self) -> LineActivity: ...
    def begin_line_wait(self, mask: int) -> PendingIoctl: ...
    def begin_drain(self) -> PendingIoctl: ...
    def forget_threads(self) -> None: ...
    def close(self) -> None: ...


# Without the capabilities: to look for them would be to ask the device for them.
_METHODS = tuple(
    name for name in vars(SerialBackend) if not name.startswith("_") and name != "capabilities"
)


_COMPLETE: set[type] = set()
"""Classes that have every method, so that each opening does not look for them again."""


def require_backend(thing: object) -> None:
    """Raise TypeError if ``thing`` is not a backend."""
    kind = thing.__class__
    if kind in _COMPLETE:
        return
    for name in _METHODS:
        if not hasattr(thing, name):
            raise TypeError(
                f"{thing!r} is not an open serial device (it has no {name}()); get a port from "
                "open_serial_port(), or give a backend such as testing.MockBackend"
            )
    if all(hasattr(kind, name) for name in _METHODS):
        _COMPLETE.add(kind)
