"""One bus with several ports: a pseudo-terminal and a network port, as a tapped RS-485 line.

Every port receives all answers, also those to another port's questions, as on a real shared line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.sim._line.bus import Bus
from penstock.sim._line.faults import BusFaults, FaultLog

__all__ = ["BusTap", "SharedLine"]

#: The number of bytes that a port keeps for a client that does not read; more are lost.
_BACKLOG_LIMIT: Final = 64 * 1024


class SharedLine:
    """Creates the taps of one bus. Not thread-safe."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._taps: list[BusTap] = []

    def tap(self) -> BusTap:
        """Attach one more port; ``BusTap.detach`` takes it off."""
        tap = BusTap(self)
        self._taps.append(tap)
        return tap

    def detach(self, tap: BusTap) -> None:
        """Detach a port. Does nothing if it is detached."""
        if tap in self._taps:
            self._taps.remove(tap)

    def distribute(self, now: float) -> None:
        """Give what has arrived by ``now`` to every port."""
        data = self.bus.take_due(now)
        if data:
            for tap in tuple(self._taps):
                tap.deliver(data)

    def wake_all(self) -> None:
        """Tell every port that the line's next deadline may have changed."""
        for tap in tuple(self._taps):
            if tap.wake is not None:
                tap.wake()


class BusTap:
    """One port's view of a bus: the part of ``Bus`` that a transport uses."""

    def __init__(self, line: SharedLine) -> None:
        self._line = line
        self._arrived = bytearray()
        #: Called when bytes have come for this port, or may come earlier than it thinks.
        self.wake: Callable[[], None] | None = None

    @property
    def baudrate(self) -> int | None:
        """As of the bus."""
        return self._line.bus.baudrate

    @property
    def faults(self) -> BusFaults:
        """As of the bus."""
        return self._line.bus.faults

    @property
    def fault_log(self) -> FaultLog:
        """As of the bus."""
        return self._line.bus.fault_log

    @property
    def congested(self) -> bool:
        """As of the bus."""
        return self._line.bus.congested

    def clock(self) -> float:
        """As of the bus."""
        return self._line.bus.clock()

    def line_opened(self) -> float:
        """As of the bus."""
        return self._line.bus.line_opened()

    def feed(self, data: bytes, now: float | None = None) -> None:
        """As of the bus."""
        self._line.bus.feed(data, now)
        self._line.wake_all()

    def take_due(self, now: float | None = None) -> bytes:
        """As of the bus; the other ports get the same bytes."""
        self._line.distribute(self.clock() if now is None else now)
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    def next_deadline(self) -> float | None:
        """As of the bus."""
        return self.clock() if self._arrived else self._line.bus.next_deadline()

    def deliver(self, data: bytes) -> None:
        """Take bytes for this port."""
        self._arrived += data[: max(0, _BACKLOG_LIMIT - len(self._arrived))]
        if self.wake is not None:
            self.wake()

    def disconnect(self) -> None:
        """Lose what waits for this port; the line goes on."""
        self._arrived.clear()

    def detach(self) -> None:
        """Take the port off the line. Idempotent."""
        self._line.detach(self)
