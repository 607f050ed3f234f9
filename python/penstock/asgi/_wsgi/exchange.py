"""One request between the loop, which owns the connection, and the thread of its application."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from penstock.asgi._errors import ClientDisconnected
from penstock.asgi._types import Message, Receive, Scope, Send

__all__ = ["Exchange", "File"]

_MOST_WAITING = 65536
"""Bytes that wait for the client, at which the application's thread waits too."""


@dataclass(frozen=True)
class File:
    """A part of a file, which ends the response."""

    file: Any
    offset: int
    count: int


class _Ended:
    def __init__(self, error: Exception | None) -> None:
        self.error = error


class _Wanted:
    """The thread waits for a part of the request's body."""


_WANTED = _Wanted()
_Item = Message | File | _Ended | _Wanted


class Exchange:
    """Carries messages from a thread to the loop, and parts of a body back.

    The thread's methods block. They raise ClientDisconnected once the client has gone.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._changed: threading.Condition | None = None  # most threads never wait
        self._items: deque[_Item] = deque()
        self._size = 0  # bytes of bodies among the items, and of those that are being sent
        self._woken = False
        self._broken = False
        self._part: tuple[bytes, bool] | None = None
        self._files_sent = 0
        self._waiter: asyncio.Future[None] | None = None

    # ---- the thread's

    def put(self, *items: _Item, size: int = 0) -> None:
        """Hand messages over. Waits while the client does not take what was sent before."""
        with self._lock:
            if self._broken:
                raise ClientDisconnected("the client has closed the connection")
            self._append(items)
            self._size += size
            while self._size > _MOST_WAITING and not self._broken:
                self._wait()

    def put_file(self, *items: _Item) -> None:
        """Hand messages over, of which the last is a File, and wait until it was sent."""
        with self._lock:
            sent = self._files_sent
            if not self._broken:
                self._append(items)
            while self._files_sent == sent and not self._broken:
                self._wait()
            if self._broken:
                raise ClientDisconnected("the client has closed the connection")

    def take_part(self) -> tuple[bytes, bool]:
        """Return the next part of the request's body, and whether more follow."""
        with self._lock:
            self._append((_WANTED,))
            while self._part is None and not self._broken:
                self._wait()
            if self._part is None:
                raise ClientDisconnected("the client left before its request was complete")
            part, self._part = self._part, None
            return part

    def end(self, *items: _Item, error: Exception | None = None) -> None:
        """Hand the last messages over: the application has ended."""
        with self._lock:
            self._append((*items, _Ended(error)))

    def _append(self, items: tuple[_Item, ...]) -> None:
        self._items.extend(items)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # the loop was closed
                self._broken = True

    def _wait(self) -> None:
        if self._changed is None:
            self._changed = threading.Condition(self._lock)
        self._changed.wait()

    # ---- the loop's

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def drive(self) -> None:
        """Send what the thread hands over, until it has ended.

        Raises:
            Exception: What the application has raised, or what `send` has.
        """
        failed: Exception | None = None
        try:
            while True:
                with self._lock:
                    items, self._items = self._items, deque()
                    if not items:
                        self._woken = False
                        self._waiter = self._loop.create_future()
                if not items and self._waiter is not None:
                    await self._waiter
                    self._waiter = None
                for item in items:
                    if isinstance(item, _Ended):
                        failed = failed or item.error
                        item.error = None
                        if failed is not None:
                            raise failed
                        return
                    if failed is None:
                        try:
                            await self._handle(item)
                        except Exception as error:
                            failed = error
                            self._break()
        finally:
            self._break()
            failed = None  # its traceback has this frame

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.notify_all()

    def _break(self) -> None:
        with self._lock:
            self._broken = True
            self._notify()

    async def _handle(self, item: _Item) -> None:
        if isinstance(item, _Wanted):
            await self._feed()
        elif isinstance(item, File):
            await self._send_file(item)
        elif isinstance(item, dict):
            await self._send(item)
            if body := item.get("body"):
                with self._lock:
                    self._size -= len(body)
                    self._notify()

    async def _feed(self) -> None:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected("the client left before its request was complete")
        with self._lock:
            self._part = (message.get("body", b""), message.get("more_body", False))
            self._notify()

    async def _send_file(self, part: File) -> None:
        await self._send(
            {
                "type": "http.response.zerocopysend",
                "file": part.file,
                "offset": part.offset,
                "count": part.count,
                "more_body": False,
            }
        )
        with self._lock:
            self._files_sent += 1
            self._notify()
