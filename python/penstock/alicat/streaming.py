"""An instrument that sends its data frames by itself.

While it does, it has no letter, and nothing else can be asked on its port: the bytes of a question
would meet those of a frame. So the port is latched until the stream has been stopped.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

import anyio

from penstock.overflow import OverflowPolicy

from .client import Exchange
from .commands.streaming import STREAMING_RATE, StreamingRateRequest
from .errors import AlicatError, AlicatProtocolError, AlicatValidationError
from .frame_decoder import UnseenGasError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from anyio.abc import TaskGroup

    from .client import AlicatProtocolClient
    from .reading import Reading
    from .session import Session

__all__ = ["StreamingSession"]

_log = logging.getLogger("penstock.alicat")
_SLOWEST_MS = 65_535


class StreamingSession:
    """The readings of an instrument that streams. Made by :meth:`Device.stream`::

        async with device.stream(rate_hz=20) as stream:
            async for reading in stream:
                print(reading.values["Mass_Flow"])

    Entering starts the stream, leaving stops it, also after an error or a cancellation: the
    instrument has its letter back then. Meanwhile every other question on its port raises
    :class:`AlicatStreamingModeError`.

    Frames wait in a buffer of ``buffer_size``. When it is full, ``overflow`` decides: drop the
    oldest (the default), drop the newest, or stop reading the port, whose own small buffer then
    fills and loses bytes. A frame that is not understood is skipped and counted, or raised with
    ``strict``.
    """

    def __init__(
        self,
        session: Session,
        *,
        rate_hz: float | None = None,
        strict: bool = False,
        overflow: OverflowPolicy = OverflowPolicy.DROP_OLDEST,
        buffer_size: int = 256,
    ) -> None:
        if buffer_size < 1:
            raise AlicatValidationError(f"buffer_size must be at least 1, not {buffer_size!r}")
        self._session = session
        self._client: AlicatProtocolClient = session.client
        self._rate_ms = None if rate_hz is None else _interval_ms(rate_hz)
        self._strict = strict
        self._overflow = overflow
        self._capacity = buffer_size
        self._waiting: deque[Reading] = deque()
        self._arrived = anyio.Event()
        self._room = anyio.Event()
        self._failure: AlicatError | None = None
        self._ended = False
        self._dropped = self._skipped = 0
        self._tasks: TaskGroup | None = None

    @property
    def dropped_frames(self) -> int:
        """Readings that were dropped because the buffer was full."""
        return self._dropped

    @property
    def skipped_frames(self) -> int:
        """Lines that were no frame of this instrument."""
        return self._skipped

    async def __aenter__(self) -> Self:
        if self._tasks is not None or self._ended:
            raise AlicatValidationError("a stream is entered once; make another one")
        if self._rate_ms is not None:
            await self._session.execute(STREAMING_RATE, StreamingRateRequest(self._rate_ms))
        generation = await self._session.ensure_current()
        await self._client.start_stream(self._session.unit_id, generation=generation)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._read)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._tasks is not None
        self._ended = True
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            with anyio.CancelScope(shield=True):
                await self._client.end_stream(self._session.unit_id)
        return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Reading:
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                raise StopAsyncIteration
            self._arrived = anyio.Event()
            await self._arrived.wait()
        reading = self._waiting.popleft()
        self._room.set()
        return reading

    async def _read(self) -> None:
        letter = self._session.unit_id.encode()
        try:
            while True:
                if self._overflow is OverflowPolicy.BLOCK:
                    while len(self._waiting) >= self._capacity:
                        self._room = anyio.Event()
                        await self._room.wait()
                line, monotonic_ns, unix_ns = await self._client.next_streamed_line()
                try:
                    frame = self._session.decode_streamed(_with_letter(line, letter))
                except UnseenGasError:
                    continue
                except AlicatProtocolError as error:
                    if self._strict:
                        raise
                    self._skipped += 1
                    _log.warning("a streamed line was skipped: %s", error)
                    continue
                stamps = (monotonic_ns, unix_ns, monotonic_ns, unix_ns)
                self._put(self._session.reading_of(Exchange(frame, *stamps)))
        except AlicatError as error:
            self._failure = error
        finally:
            self._arrived.set()

    def _put(self, reading: Reading) -> None:
        waiting = self._waiting
        if len(waiting) >= self._capacity:
            self._dropped += 1
            if self._overflow is OverflowPolicy.DROP_NEWEST:
                return
            waiting.popleft()
        waiting.append(reading)
        self._arrived.set()


def _with_letter(line: bytes, letter: bytes) -> bytes:
    """A streamed frame as a polled one: newer firmware leaves the letter out, older sends ``@``."""
    if line[:1] == b"@":
        return letter + line[1:]
    return letter + b" " + line


def _interval_ms(rate_hz: float) -> int:
    if not 0 < rate_hz <= 1000:
        raise AlicatValidationError(
            f"a stream's rate must be above 0 and at most 1000 frames a second, not {rate_hz!r}"
        )
    interval = round(1000 / rate_hz)
    if interval > _SLOWEST_MS:
        raise AlicatValidationError(
            f"{rate_hz!r} frames a second are too few: an instrument streams at least one every "
            f"{_SLOWEST_MS / 1000:g} s; poll it instead"
        )
    return interval
