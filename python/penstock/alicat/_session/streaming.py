"""An instrument that sends its data frames by itself.

Meanwhile it has no letter, and no other question can be sent on its port: the bytes of a question
would collide with those of a frame. So the port is reserved until the stream has been stopped.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from penstock._bounded_queue import BoundedQueue
from penstock.alicat._bus.client import Exchange
from penstock.alicat._instrument.reading import UnseenGasError
from penstock.alicat.commands.polling import STREAMING_RATE, StreamingRateRequest
from penstock.alicat.errors import AlicatError, AlicatProtocolError, AlicatValidationError
from penstock.overflow import OverflowPolicy

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from anyio.abc import TaskGroup

    from penstock.alicat._bus.client import AlicatProtocolClient
    from penstock.alicat._instrument.reading import Reading
    from penstock.alicat._session.session import Session


_log = logging.getLogger("penstock.alicat")
_SLOWEST_MS = 65_535


class StreamedFrames:
    """Starting a stream, its frames one by one, and stopping it."""

    def __init__(self, session: Session, *, rate_hz: float | None, strict: bool) -> None:
        self._session = session
        self._client: AlicatProtocolClient = session.client
        self._rate_ms = None if rate_hz is None else _interval_ms(rate_hz)
        self._strict = strict
        self.skipped = 0
        """Lines that were not a frame of this instrument."""

    async def start(self) -> None:
        """Set the rate, if one was passed, and start the stream."""
        if self._rate_ms is not None:
            await self._session.execute(STREAMING_RATE, StreamingRateRequest(self._rate_ms))
        generation = await self._session.ensure_current()
        await self._client.start_stream(self._session.unit_id, generation=generation)

    async def next(self) -> Reading:
        """The next frame.

        Raises:
            AlicatProtocolError: a line is not a frame, and frames are read strictly.
            AlicatConnectionError: the port is lost or closed.
        """
        letter = self._session.unit_id.encode()
        while True:
            line, monotonic_ns, unix_ns = await self._client.next_streamed_line()
            try:
                frame = self._session.decode_streamed(_with_letter(line, letter))
            except UnseenGasError:
                continue
            except AlicatProtocolError as error:
                if self._strict:
                    raise
                self.skipped += 1
                _log.warning("a streamed line was skipped: %s", error)
                continue
            stamps = (monotonic_ns, unix_ns, monotonic_ns, unix_ns)
            return self._session.reading_of(Exchange(frame, *stamps))

    async def stop(self) -> None:
        """Stop the stream, even if the task is cancelled. The instrument gets its letter back."""
        client = self._client
        await client.waiting.finish(lambda: client.end_stream(self._session.unit_id))


class StreamingSession:
    """The readings of an instrument that streams. Made by :meth:`Device.stream`.

    ::

        async with device.stream(rate_hz=20) as stream:
            async for reading in stream:
                print(reading.values["Mass_Flow"])

    Entering starts the stream, leaving stops it, even after an error or a cancellation: the
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
        self._frames = StreamedFrames(session, rate_hz=rate_hz, strict=strict)
        self._readings: BoundedQueue[Reading] = BoundedQueue(buffer_size, overflow)
        self._ended = False
        self._tasks: TaskGroup | None = None

    @property
    def dropped_frames(self) -> int:
        """Readings that were dropped because the buffer was full."""
        return self._readings.dropped

    @property
    def skipped_frames(self) -> int:
        """Lines that were not a frame of this instrument."""
        return self._frames.skipped

    async def __aenter__(self) -> Self:
        if self._tasks is not None or self._ended:
            raise AlicatValidationError("a stream can be entered only once; create another one")
        await self._frames.start()
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
        self._readings.close()
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            await self._frames.stop()
        return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Reading:
        return await self._readings.get()

    async def _read(self) -> None:
        readings, frames = self._readings, self._frames
        try:
            while True:
                await readings.wait_for_room()
                readings.put(await frames.next())
        except AlicatError as error:
            readings.close(error)
        finally:
            readings.close()


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
