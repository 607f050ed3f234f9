"""An ASGI application without a framework: a greeting, and a stream of the time.

penstock serve asgi_app:app --app-dir examples
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]


async def app(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Answer /time with a line a second until the client goes, and all else with a greeting."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] != "/time":
        await send({"type": "http.response.body", "body": b"hello\n"})
        return
    # After the client has gone, `send` raises an OSError, which ends the stream without a log line.
    while True:
        line = time.strftime("%H:%M:%S\n").encode()
        await send({"type": "http.response.body", "body": line, "more_body": True})
        await asyncio.sleep(1)
