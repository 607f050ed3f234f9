"""One request between the loop, which owns the connection, and the thread of its application."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

from penstock.asgi._errors import ClientDisconnected
from penstock.asgi._types import Message, Receive, Scope, Send

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


_ENDED_WELL = _Ended(None)
_WANTED = _Wanted()
_Item = Message | File | _Ended | _Wanted


class Outbox:
    """What the threads of a pool have for one loop. One wake-up delivers all that is there.

    Attributes:
        loop: The loop.
        lock: That of all exchanges of the pool on this loop. Reentrant: the collector may run code
            of the application in any thread, also in one that has the lock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.lock = threading.RLock()
        self._changed: list[Exchange] = []

    def add(self, exchange: Exchange) -> bool:
        """Add an exchange that the loop is to look at. Returns whether `wake` is to be called.

        Called with the lock.
        """
        self._changed.append(exchange)
        return len(self._changed) == 1

    def wake(self) -> None:
        """Wake the loop. For the thread whose exchange was the first."""
        try:
            self.loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop was closed
            for exchange in self._take():
                exchange._break()

    def _deliver(self) -> None:
        for exchange in self._take():
            exchange._wake()

    def _take(self) -> list[Exchange]:
        with self.lock:
            changed, self._changed = self._changed, []
            return changed


class Exchange:
    """Carries messages from a thread to the loop, and parts of a body back.

    The thread's methods block. They raise ClientDisconnected once the client has gone.
    """

    __slots__ = (
        *("scope", "_receive", "_send", "_outbox", "_lock", "_changed", "_items", "_size"),
        *("_woken", "_broken", "_part", "_files_sent", "_waiter"),
    )

    def __init__(self, outbox: Outbox, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._outbox = outbox
        self._lock = outbox.lock
        self._changed: threading.Condition | None = None  # most threads never wait
        self._items: list[_Item] = []
        self._size = 0  # bytes of bodies among the items, and of those that are being sent
        self._woken = False
        self._broken = False
        self._part: tuple[bytes, bool] | None = None
        self._files_sent = 0
        self._waiter: asyncio.Future[None] = outbox.loop.create_future()

    # ---- the thread's

    def put(self, *items: _Item, size: int = 0) -> None:
        """Hand messages over. Waits while the client does not take what was sent before."""
        with self._lock:
            if self._broken:
                raise ClientDisconnected("the client has closed the connection")
            wakes = self._append(items)
            self._size += size
            waits = self._size > _MOST_WAITING
        if wakes:
            self._outbox.wake()
        if waits:
            with self._lock:
                while self._size > _MOST_WAITING and not self._broken:
                    self._wait()

    def put_file(self, *items: _Item) -> None:
        """Hand messages over, of which the last is a File, and wait until it was sent."""
        with self._lock:
            sent = self._files_sent
            wakes = not self._broken and self._append(items)
        if wakes:
            self._outbox.wake()
        with self._lock:
            while self._files_sent == sent and not self._broken:
                self._wait()
            if self._broken:
                raise ClientDisconnected("the client has closed the connection")

    def take_part(self) -> tuple[bytes, bool]:
        """Return the next part of the request's body, and whether more follow."""
        with self._lock:
            wakes = not self._broken and self._append((_WANTED,))
        if wakes:
            self._outbox.wake()
        with self._lock:
            while self._part is None and not self._broken:
                self._wait()
            if self._part is None:
                raise ClientDisconnected("the client left before its request was complete")
            part, self._part = self._part, None
            return part

    def end(self, *items: _Item, error: Exception | None = None) -> None:
        """Hand the last messages over: the application has ended. Nothing else can be put then."""
        with self._lock:
            wakes = self._append((*items, _ENDED_WELL if error is None else _Ended(error)))
            self._broken = True
            self._notify()
        if wakes:
            self._outbox.wake()

    def _append(self, items: tuple[_Item, ...]) -> bool:
        # Returns whether the loop is to be woken, behind the lock.
        self._items.extend(items)
        if self._woken:
            return False
        self._woken = True
        return self._outbox.add(self)

    def _wait(self) -> None:
        if self._changed is None:
            self._changed = threading.Condition(self._lock)
        self._changed.wait()

    # ---- the loop's

    def _wake(self) -> None:
        if not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> list[_Item]:
        # Nothing means that the waiter is to be awaited.
        items = self._items
        if items and isinstance(items[-1], _Ended):
            return items  # nothing is put behind the end, so this needs no lock
        with self._lock:
            items = self._items
            if items:
                self._items = []
            else:
                self._woken = False
                self._waiter = self._outbox.loop.create_future()
            return items

    async def drive(self) -> None:
        """Send what the thread hands over, until it has ended.

        Raises:
            Exception: What the application has raised, or what `send` has.
        """
        failed: Exception | None = None
        try:
            while True:
                await self._waiter
                while items := self._take():
                    end = items.pop() if isinstance(items[-1], _Ended) else None
                    if failed is None:
                        try:
                            for item in items:
                                if isinstance(item, dict):
                                    await self._send(item)
                                    if end is None:
                                        self._count(item)
                                else:
                                    await self._serve(item)
                        except Exception as error:
                            failed = error
                            self._break()
                    if isinstance(end, _Ended):
                        failed = failed or end.error
                        end.error = None
                        if failed is not None:
                            raise failed
                        return
        except BaseException:
            self._break()
            raise
        finally:
            failed = None  # its traceback has this frame

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.notify_all()

    def _break(self) -> None:
        with self._lock:
            self._broken = True
            self._notify()

    def _count(self, sent: Message) -> None:
        # Not needed behind the end: nothing waits for it then.
        if body := sent.get("body"):
            with self._lock:
                self._size -= len(body)
                self._notify()

    async def _serve(self, item: _Item) -> None:
        if isinstance(item, _Wanted):
            await self._feed()
        elif isinstance(item, File):
            await self._send_file(item)

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
