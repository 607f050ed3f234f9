"""A simulated bus as an AnyIO byte stream, without a file descriptor in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from penstock.sim.bus import Bus

__all__ = ["MemoryStream", "open_memory"]


class MemoryStream(ByteStream):
    """The host's end of a bus: what is sent are requests, what is received are answers.

    Both directions keep the bus's pace. `receive` may be cancelled at any moment without losing a
    byte. There is no end of stream: a line that says nothing stays silent.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._arrived = b""
        self._changed = anyio.Event()
        self._closed = False
        self._receiving = False

    async def send(self, item: bytes) -> None:
        """Put bytes on the line. Raises anyio.ClosedResourceError after `aclose`."""
        if self._closed:
            raise anyio.ClosedResourceError
        await checkpoint()
        self.bus.feed(bytes(item))
        self._notify()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """At least one byte that the units sent, as soon as it is there.

        Raises anyio.ClosedResourceError after `aclose`, anyio.BusyResourceError when another task
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
                self._arrived += self.bus.take_due()
                if self._arrived:
                    data = self._arrived[:max_bytes]
                    self._arrived = self._arrived[max_bytes:]
                    return data
                await self._wait()
        finally:
            self._receiving = False

    async def send_eof(self) -> None:
        """Nothing to do: a serial line has no end."""
        await checkpoint()

    async def aclose(self) -> None:
        """Take the host's end off the line; what is on it is lost."""
        if not self._closed:
            self._closed = True
            self.bus.disconnect()
            self._notify()
        await checkpoint()

    async def _wait(self) -> None:
        deadline = self.bus.next_deadline()
        if deadline is None:
            await self._changed.wait()
        else:
            with anyio.move_on_after(max(0.0, deadline - self.bus.clock())):
                await self._changed.wait()

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
