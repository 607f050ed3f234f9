"""A transport whose peer distinguishes each send, written to in one callback."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

only_penstock = pytest.mark.parametrize("loop_name", ["penstock"])

CALLBACKS = 6
"""How often a test repeats a callback, so that no state of earlier ones may change its sends."""


def write_each(*chunks: bytes) -> Callable[[Any], None]:
    """Return a callback that writes the chunks one by one."""

    def write(transport: Any) -> None:
        for chunk in chunks:
            transport.write(chunk)

    return write


class SeparateSends(ABC):
    """A transport whose peer distinguishes each send."""

    loop: asyncio.AbstractEventLoop | Any
    transport: Any
    _answered: asyncio.Future[list[bytes]]

    @abstractmethod
    def arrived(self) -> list[bytes]:
        """Return the data of each send, and b"" for the end."""

    def in_one_callback(self, callback: Callable[[Any], object]) -> list[bytes]:
        """Return the data that have arrived at the end of a callback, before other code runs."""
        arrived = self.loop.create_future()

        def body() -> None:
            self.loop.call_soon(lambda: arrived.set_result(self.arrived()))
            callback(self.transport)

        self.loop.call_soon(body)
        result: list[bytes] = self.loop.run_until_complete(arrived)
        return result

    def during_writes(self, *chunks: bytes) -> list[bytes]:
        """Return what has arrived each time a write of a callback has returned.

        The callback writes the chunks one by one, and runs several times.
        """
        seen: list[bytes] = []

        def write(transport: Any) -> None:
            for chunk in chunks:
                transport.write(chunk)
                seen.extend(self.arrived())

        for _ in range(CALLBACKS):
            self.in_one_callback(write)
        return seen

    def answer_to(self, send: Callable[[], object]) -> list[bytes]:
        """Return the data that have arrived at the end of data_received, before other code runs.

        ``send`` sends the peer's data.
        """
        self._answered = self.loop.create_future()
        send()
        result: list[bytes] = self.loop.run_until_complete(asyncio.wait_for(self._answered, 30))
        return result

    def receiving(self) -> None:
        """The first action of the protocol's data_received."""
        self.loop.call_soon(lambda: self._answered.set_result(self.arrived()))
