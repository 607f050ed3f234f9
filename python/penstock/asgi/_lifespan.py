"""The lifespan of an application: its start-up and its shutdown."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from penstock.asgi._errors import LifespanFailed, is_cancelled
from penstock.asgi._options import Lifespan
from penstock.asgi._types import Application, Message

_AFTER_SHUTDOWN = 1.0
"""Seconds in which an application returns after it has said that its shutdown is complete."""


class LifespanTask:
    """Runs an application's lifespan in one task, whose context both of its ends see."""

    def __init__(self, app: Application, mode: Lifespan, logger: logging.Logger) -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._mode = mode
        self._logger = logger
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = loop.create_future()
        self._stopped: asyncio.Future[None] = loop.create_future()

    async def start(self) -> None:
        """Run the application's start-up. Cancelling the call cancels the application.

        Raises:
            LifespanFailed: If the application says that it has failed or, in the mode "on", has no
                lifespan.
        """
        if self._mode == "off":
            return
        self._logger.info("Waiting for application startup.")
        self._messages.put_nowait({"type": "lifespan.startup"})
        self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            await self._started
        except BaseException:
            # Nothing else would end it: it may wait for its shutdown, or not have answered.
            self._task.cancel()
            raise
        self._logger.info("Application startup complete.")

    async def stop(self) -> None:
        """Run the application's shutdown.

        Raises:
            LifespanFailed: If the application says that it has failed.
        """
        if self._task is None or self._task.done():
            return
        self._logger.info("Waiting for application shutdown.")
        self._messages.put_nowait({"type": "lifespan.shutdown"})
        await self._stopped
        # One that receives in a loop without an end never returns.
        await asyncio.wait([self._task], timeout=_AFTER_SHUTDOWN)
        self._logger.info("Application shutdown complete.")

    def cancel(self) -> None:
        """Give the application up."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self._app(scope, self._messages.get, self._send)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            self._handle(error)
        finally:
            for end in (self._started, self._stopped):
                if not end.done():
                    end.set_result(None)

    def _handle(self, error: BaseException) -> None:
        for end in (self._started, self._stopped):
            if end.done() and not end.cancelled() and end.exception() is not None:
                return  # it has said so before
        if self._mode == "auto" and not self._started.done():
            self._logger.info("ASGI 'lifespan' protocol appears unsupported.")
            return
        self._logger.error("Exception in 'lifespan' protocol\n", exc_info=error)
        if not self._stopped.done():
            self._fail(self._stopped if self._started.done() else self._started, str(error))

    @staticmethod
    def _fail(end: asyncio.Future[None], reason: str) -> None:
        end.set_exception(LifespanFailed(reason or "the application gave no reason"))
        end.exception()  # it may be that nobody asks any more

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        phase = "shutdown" if self._started.done() else "startup"
        end = self._started if phase == "startup" else self._stopped
        if end.done() or kind not in (f"lifespan.{phase}.complete", f"lifespan.{phase}.failed"):
            raise AssertionError(f"unexpected message {kind!r} in the lifespan's {phase}")
        if kind.endswith(".complete"):
            end.set_result(None)
        else:
            reason = message.get("message", "")
            if reason:
                self._logger.error(reason)
            self._fail(end, reason)
