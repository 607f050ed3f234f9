"""Waiting without an event loop: coroutines that never suspend, and a port whose calls block."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar

from penstock.alicat._bus.waiting import Alarm, Event, Scope, Waiting
from penstock.alicat.transport import (
    SerialSettings,
    describe_open_failure,
    known_baudrate,
    port_address,
)
from penstock.serial.sync import SerialPort, open_serial_port

__all__ = [
    "BLOCKING",
    "BlockingTransport",
    "BlockingWaiting",
    "DeadlinePassedError",
    "open_blocking_transport",
    "run_without_loop",
]


T = TypeVar("T")


def run_without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose waits all block to its end, and raise what it raises."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(
        "a coroutine of the synchronous interface has suspended: it awaits something of an event "
        "loop"
    )


class DeadlinePassedError(BaseException):
    """The deadline of a block has passed. Only the block that it belongs to catches it.

    Not an ``Exception``, so that no handler in between takes it for an error of the line.
    """

    def __init__(self, scope: _BlockingScope) -> None:
        super().__init__()
        self.scope = scope


class _Blocks(threading.local):
    """The blocks that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.open: list[_BlockingScope] = []


class _BlockingScope:
    def __init__(self, blocks: _Blocks, deadline: float, shield: bool) -> None:
        self.deadline: float = deadline
        self.shield = shield
        self._blocks = blocks
        self._caught = False

    @property
    def cancelled_caught(self) -> bool:
        return self._caught

    def cancel(self) -> None:
        self.deadline = -math.inf

    def __enter__(self) -> Scope:
        self._blocks.open.append(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._blocks.open.pop()
        self._caught = isinstance(exc, DeadlinePassedError) and exc.scope is self
        return self._caught


class _BlockingAlarm:
    def set(self, scope: Scope, seconds: float) -> None:
        scope.deadline = time.monotonic() + seconds

    def off(self) -> None:
        pass


class _BlockingEvent:
    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        self._event.wait()


class BlockingWaiting:
    """A :class:`Waiting` whose coroutines block their thread. Safe to use from several threads."""

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def now(self) -> float:
        """The monotonic clock."""
        return time.monotonic()

    def scope(self, *, deadline: float = math.inf, shield: bool = False) -> Scope:
        """A block with a deadline. There is no cancellation to shield from."""
        return _BlockingScope(self._blocks, deadline, shield)

    def alarm(self) -> Alarm:
        """Deadlines; those of blocks already cost nothing."""
        return _BlockingAlarm()

    def event(self) -> Event:
        """An event that is not set."""
        return _BlockingEvent()

    async def sleep(self, seconds: float) -> None:
        """Block for a number of seconds, or until the deadline of a block."""
        scope = self.nearest()
        if scope is None or scope.deadline - self.now() > seconds:
            _block(seconds)
            return
        _block(scope.deadline - self.now())
        raise DeadlinePassedError(scope)

    async def together(self, calls: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Run the calls at once, each in a thread of its own; one alone in this thread.

        An exception of one is raised when all have ended, those of several as a group.
        """
        if len(calls) == 1:
            await calls[0]()
            return
        errors: list[BaseException] = []

        def run(call: Callable[[], Coroutine[Any, Any, None]]) -> None:
            try:
                run_without_loop(call())
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise BaseExceptionGroup("asking several ports failed", errors)

    async def checkpoint_if_cancelled(self) -> None:
        """Nothing: there is no cancellation."""

    async def finish(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``call``: there is no cancellation."""
        return await call()

    def nearest(self) -> _BlockingScope | None:
        """The block of this thread whose deadline comes first; ``None`` where none has one.

        Blocks outside of a shielded one do not count.
        """
        found: _BlockingScope | None = None
        for scope in reversed(self._blocks.open):
            if scope.deadline < (math.inf if found is None else found.deadline):
                found = scope
            if scope.shield:
                break
        return found


def _block(seconds: float) -> None:
    time.sleep(max(0.0, seconds))


BLOCKING = BlockingWaiting()
_check: Waiting = BLOCKING


class BlockingTransport:
    """A :class:`penstock.alicat.Transport` whose coroutines block and never suspend.

    A call ends at the deadline of the block that it is made in.
    """

    def __init__(
        self, port: SerialPort, *, label: str | None = None, baudrate: int | None = None
    ) -> None:
        self._port = port
        self._label = label or port.path
        self._baudrate = baudrate

    @property
    def label(self) -> str:
        """The name to use in errors."""
        return self._label

    @property
    def baudrate(self) -> int | None:
        """Bits a second on the wire, or ``None``."""
        return self._baudrate

    async def send(self, data: bytes) -> None:
        """Send all of ``data``."""
        scope = BLOCKING.nearest()
        if scope is None:
            self._port.send(data)
            return
        try:
            self._port.send(data, timeout=max(0.0, scope.deadline - BLOCKING.now()))
        except TimeoutError:
            raise DeadlinePassedError(scope) from None

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Wait for bytes; never empty."""
        scope = BLOCKING.nearest()
        if scope is None:
            return self._port.receive(max_bytes)
        try:
            return self._port.receive(max_bytes, timeout=max(0.0, scope.deadline - BLOCKING.now()))
        except TimeoutError:
            raise DeadlinePassedError(scope) from None

    async def receive_by(self, deadline: float, max_bytes: int = 65536) -> bytes:
        """Wait for bytes until ``deadline``; empty when it has passed."""
        scope = BLOCKING.nearest()
        outer = math.inf if scope is None else scope.deadline
        try:
            seconds = max(0.0, min(deadline, outer) - BLOCKING.now())
            return self._port.receive(max_bytes, timeout=seconds)
        except TimeoutError:
            if scope is not None and outer < deadline:
                raise DeadlinePassedError(scope) from None
            return b""

    def input_waiting(self) -> int:
        """Bytes that :meth:`receive` would return at once."""
        return self._port.input_waiting()

    async def aclose(self) -> None:
        """Close the port; may be called more than once."""
        self._port.close()


async def open_blocking_transport(settings: SerialSettings) -> BlockingTransport:
    """Open the port that ``settings`` describe; raises as ``open_serial_transport``."""
    config = settings.to_serial_config()
    with describe_open_failure(settings):
        port = open_serial_port(port_address(settings.port), config)
    return BlockingTransport(port, label=settings.port, baudrate=known_baudrate(settings))
