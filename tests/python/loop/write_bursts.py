"""Several writes of one callback, and what has left when it has ended."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

BURSTS_BEFORE_HOLDING = 3

only_penstock = pytest.mark.parametrize("loop_name", ["penstock"])


def write_each(*chunks: bytes) -> Callable[[Any], None]:
    """A callback that writes the chunks one by one."""

    def write(transport: Any) -> None:
        for chunk in chunks:
            transport.write(chunk)

    return write


class WriteBursts(ABC):
    """A transport whose peer tells each send apart."""

    loop: asyncio.AbstractEventLoop | Any
    transport: Any
    _answered: asyncio.Future[list[bytes]]

    @abstractmethod
    def arrived(self) -> list[bytes]:
        """What each send brought, and b"" for the end."""

    def in_one_callback(self, callback: Callable[[Any], object]) -> list[bytes]:
        """What has arrived when a callback has ended, and nothing else has run since."""
        arrived = self.loop.create_future()

        def body() -> None:
            self.loop.call_soon(lambda: arrived.set_result(self.arrived()))
            callback(self.transport)

        self.loop.call_soon(body)
        result: list[bytes] = self.loop.run_until_complete(arrived)
        return result

    def answer_to(self, send: Callable[[], object]) -> list[bytes]:
        """What has arrived when data_received has ended, and nothing else has run since.

        ``send`` is the peer's part.
        """
        self._answered = self.loop.create_future()
        send()
        result: list[bytes] = self.loop.run_until_complete(asyncio.wait_for(self._answered, 10))
        return result

    def receiving(self) -> None:
        """What the protocol's data_received begins with."""
        self.loop.call_soon(lambda: self._answered.set_result(self.arrived()))

    def write_in_bursts(self) -> None:
        """Let the transport know that several writes a callback are usual."""
        for _ in range(BURSTS_BEFORE_HOLDING):
            self.in_one_callback(write_each(b"header", b"body"))
