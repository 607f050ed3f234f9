"""An application around another one, which tells of each response and its duration."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock.asgi import Application, Message, Receive, Scope, Send, is_disconnect

__all__ = ["CLIENT_HAS_GONE", "Observed"]

CLIENT_HAS_GONE = 499
"""The status of a response that nobody waits for any more; nginx's."""

Observer = Callable[[Scope, int, float], object]


class Observed:
    """Calls `observers` with the scope, the status and the seconds of each response.

    Args:
        app: The other application.
        observers: Called when the application has ended. The status is 500 if it has ended before
            a response, as the server then answers, that of the server's own answer where the body
            of the request has failed (400, 408), and 499 if the client has gone before.
    """

    def __init__(self, app: Application, observers: Sequence[Observer]) -> None:
        self._app = app
        self._observers = observers
        # By the identity of the scope: what the server has answered in the application's place.
        self._running: dict[int, int] = {}

    @property
    def in_progress(self) -> int:
        """The number of requests whose application has not ended."""
        return len(self._running)

    def note_refusal(self, scope: Scope, status: int) -> None:
        """Tell the observers of a response of the server itself.

        Of a request whose application runs they are told when that has ended.
        """
        if id(scope) in self._running:
            self._running[id(scope)] = status
            return
        for observer in self._observers:
            observer(scope, status, 0.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        status = 0
        without_response = 500

        async def note_disconnect() -> Message:
            nonlocal without_response
            message = await receive()
            if message["type"] == "http.disconnect":
                without_response = CLIENT_HAS_GONE
            return message

        def note_status(message: Message) -> Any:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            return send(message)

        began = time.perf_counter()
        self._running[id(scope)] = 0
        try:
            return await self._app(scope, note_disconnect, note_status)
        except BaseException as error:
            if is_disconnect(error):
                without_response = CLIENT_HAS_GONE
            raise
        finally:
            status = self._running.pop(id(scope)) or status or without_response
            seconds = time.perf_counter() - began
            for observer in self._observers:
                observer(scope, status, seconds)
