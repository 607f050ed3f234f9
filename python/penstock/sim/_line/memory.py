"""A simulated bus as an AnyIO byte stream, without a file descriptor in between."""

from __future__ import annotations

import errno
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from penstock.sim._line.bus import Bus, BusTap
from penstock.sim._line.faults import BusFaults


class MemoryStream(ByteStream):
    """The host's end of a bus: what is sent are requests, what is received are answers.

    Both directions keep the bus's pace. ``receive`` may be cancelled at any moment without losing a
    byte. There is no end of stream: a line that says nothing stays silent.

    While the bus's faults have the line unplugged, a new stream raises OSError (ENODEV). A stream
    that is open then is broken for good: ``send`` and ``receive`` raise anyio.BrokenResourceError,
    and a new one has to be made once the line is plugged in again. Seconds count from the first
    stream of the bus. With ``follow_unplug`` false somebody else does that.
    """

    def __init__(self, bus: Bus | BusTap, *, follow_unplug: bool = True) -> None:
        self.bus = bus
        self._follow_unplug = follow_unplug
        self._opened = bus.clock()
        if follow_unplug and not bus.faults.plugged_after(self._seconds())[0]:
            raise OSError(errno.ENODEV, "the simulated line is unplugged")
        if isinstance(bus, BusTap):
            bus.wake = self._notify
        self._arrived = b""
        self._changed = anyio.Event()
        self._closed = self._broken = False
        self._receiving = False
        self._planned: BusFaults | None = None
        self._breaks_at = math.inf

    async def send(self, item: bytes) -> None:
        """Put bytes on the line. Raises anyio.ClosedResourceError after ``aclose``."""
        if self._closed:
            raise anyio.ClosedResourceError
        await checkpoint()
        self._check_plugged()
        self.bus.feed(bytes(item))
        self._notify()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """At least one byte that the units sent, as soon as it is there.

        Raises anyio.ClosedResourceError after ``aclose``, anyio.BusyResourceError when another task
        is receiving.
        """
        if max_bytes <= 0:
            raise ValueError(f"max_bytes {max_bytes} is not positive")
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        self._receiving = True
        try:
            await checkpoint()
            while True:
                if self._closed:
                    raise anyio.ClosedResourceError
                self._check_plugged()
                self._arrived += self.bus.take_due()
                if self._arrived:
                    data = self._arrived[:max_bytes]
                    self._arrived = self._arrived[max_bytes:]
                    return data
                await self._wait()
        finally:
            self._receiving = False

    def input_waiting(self) -> int:
        """How many bytes ``receive`` would return at once."""
        self._arrived += self.bus.take_due()
        return len(self._arrived)

    async def send_eof(self) -> None:
        """Nothing to do: a serial line has no end."""
        await checkpoint()

    async def aclose(self) -> None:
        """Take the host's end off the line; what is on it is lost."""
        if not self._closed:
            self._closed = True
            self.bus.disconnect()
            if isinstance(self.bus, BusTap):
                self.bus.detach()
            self._notify()
        await checkpoint()

    async def _wait(self) -> None:
        deadline = self.bus.next_deadline()
        seconds = math.inf if deadline is None else max(0.0, deadline - self.bus.clock())
        if self._follow_unplug:
            seconds = min(seconds, max(0.0, self._unplugged_at() - self.bus.clock()))
        if seconds == math.inf:
            await self._changed.wait()
        else:
            with anyio.move_on_after(seconds):
                await self._changed.wait()

    def _seconds(self) -> float:
        """Since the line was opened, by this stream or an earlier one."""
        return self.bus.clock() - self.bus.line_opened()

    def _unplugged_at(self) -> float:
        """When this stream breaks, on the bus's clock."""
        faults = self.bus.faults
        if faults is not self._planned:
            self._planned = faults
            opened = self.bus.line_opened()
            begins = (opened + begin for begin, _ in faults.unplug)
            self._breaks_at = min((at for at in begins if at > self._opened), default=math.inf)
        return self._breaks_at

    def _check_plugged(self) -> None:
        if self._follow_unplug and (now := self.bus.clock()) >= self._unplugged_at():
            if not self._broken:
                self._broken = True
                self._arrived = b""
                self.bus.disconnect()
                self.bus.fault_log.add(now, "unplug", "")
            raise anyio.BrokenResourceError

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


@asynccontextmanager
async def open_memory(bus: Bus) -> AsyncIterator[MemoryStream]:
    """The bus as a byte stream, for as long as the context lasts."""
    stream = MemoryStream(bus)
    try:
        yield stream
    finally:
        await stream.aclose()
