"""A ring's completions on an asyncio loop: :class:`UringAsync`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import asyncio

    from penstock._uring import Completion
    from penstock.uring._context import UringCtx


class UringAsync:
    """Awaits the completions of a ring that was made with ``defer_taskrun=False``.

    ::

        with UringCtx(defer_taskrun=False) as ctx:
            async with UringAsync(ctx) as ring:
                ctx.prep_read(fd, 4096, 0, user_data="first")
                user_data, data, flags = await ring.wait_completion()

    An object belongs to the event loop and the thread of the first wait. It does not close the
    ring. Cancelling a wait does not lose a completion: the next wait returns it.
    """

    def __init__(self, ctx: UringCtx) -> None:
        """Await the completions of ``ctx``.

        Raises:
            ValueError: if the ring is closed, or a selector would not wake up for it.
        """
        ctx.fileno()
        self._ctx = ctx
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[asyncio.Future[Completion]] = deque()
        self._returned: deque[Completion] = deque()
        self._watched = -1
        self._closed = False

    @property
    def ctx(self) -> UringCtx:
        """The ring."""
        return self._ctx

    @property
    def ring_fd(self) -> int:
        """The ring's descriptor; -1 once it is closed."""
        return self._ctx.ring_fd

    async def wait_completion(self) -> Completion:
        """Submit what is prepared, and wait for the next completion.

        Concurrent waits return in the order in which they began. Cancelling a wait does not cancel
        an operation.

        Raises:
            RuntimeError: if another event loop has waited before, or if this object is closed
                before or during the wait.
            ValueError: if the ring is closed.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise RuntimeError("this UringAsync belongs to another event loop")
        if self._closed:
            raise RuntimeError("this UringAsync is closed")
        self._loop = loop
        self._ctx.submit()
        if not self._waiting and (found := self._next()) is not None:
            return found
        future: asyncio.Future[Completion] = loop.create_future()
        self._waiting.append(future)
        self._watch(loop)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._returned.appendleft(future.result())
                self._distribute_completions()
            raise
        finally:
            if future in self._waiting:
                self._waiting.remove(future)
            if not self._waiting:
                self._unwatch()

    def _next(self) -> Completion | None:
        return self._returned.popleft() if self._returned else self._ctx.peek_completion()

    def _distribute_completions(self) -> None:
        try:
            while self._waiting:
                if self._waiting[0].done():
                    self._waiting.popleft()
                elif (found := self._next()) is not None:
                    self._waiting.popleft().set_result(found)
                else:
                    return
        except Exception as error:  # the ring was closed
            self._fail(error)
        self._unwatch()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._watched < 0:
            self._watched = self._ctx.fileno()
            loop.add_reader(self._watched, self._distribute_completions)

    def _unwatch(self) -> None:
        if self._watched >= 0 and self._loop is not None:
            self._loop.remove_reader(self._watched)
            self._watched = -1

    def _fail(self, error: Exception) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(error)

    def close(self) -> None:
        """End the waits with ``RuntimeError``. The ring and its operations are not affected."""
        self._closed = True
        self._unwatch()
        self._fail(RuntimeError("this UringAsync was closed"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self.close()
