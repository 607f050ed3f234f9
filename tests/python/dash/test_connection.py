"""One browser's connection, over a socket that a test plays."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
from starlette.websockets import WebSocketState

from penstock.dash import Board
from penstock.dash._connection import Connection


class StuckSocket:
    """A browser that asks a thousand times and takes no answer."""

    application_state = WebSocketState.CONNECTED

    def __init__(self) -> None:
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        if self.asked == 1000:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        self.asked += 1
        return {"type": "websocket.receive", "text": '{"type": "hello", "token": "x", "id": 1}'}

    async def send_text(self, text: str) -> None:
        await anyio.sleep_forever()


def test_a_browser_that_takes_no_answers_is_asked_for_no_more() -> None:
    async def main() -> None:
        socket: Any = StuckSocket()
        connection = Connection(socket, Board("run"), controls=None, token=None, granted=False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            await anyio.wait_all_tasks_blocked()
            assert socket.asked == 16
            tasks.cancel_scope.cancel()

    anyio.run(main)
