"""A line that is never silent: a question ends at its deadline all the same."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from penstock.alicat import AlicatProtocolClient
from penstock.alicat.errors import AlicatProtocolError, AlicatTimeoutError

pytestmark = pytest.mark.anyio


class Restless:
    """A transport whose bytes are always there."""

    label = "restless"
    baudrate = None

    def __init__(self, chunk: bytes) -> None:
        self._chunk = chunk
        self._asked = False

    async def send(self, data: bytes) -> None:
        self._asked = True

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.lowlevel.checkpoint()
        return self._chunk

    async def receive_by(self, deadline: float, max_bytes: int) -> bytes:
        return await self.receive(max_bytes)

    def input_waiting(self) -> int:
        return len(self._chunk) if self._asked else 0

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("chunk", [b"x", b"B +1.0 noise\r"], ids=["no line", "lines of another"])
async def test_a_question_ends_at_its_deadline(chunk: bytes) -> None:
    client = AlicatProtocolClient(Restless(chunk), default_timeout=0.02)
    with anyio.fail_after(30), pytest.raises((AlicatTimeoutError, AlicatProtocolError)):
        await client.query_line(b"AVE", timeout=0.02)
