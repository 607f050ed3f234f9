"""Devices that send readings by themselves, as a source of recordings."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Self, TypeVar

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from penstock._plain_task_group import plain_task_group
from penstock.record._sample import PollResult
from penstock.record._source import DeviceResultLike, FieldSchemaLike, ReadingLike, Stamped

_WAITING = 256


class StampedReading(ReadingLike, Stamped, Protocol):
    """A reading that knows when its device was asked, or when it came; also in ns since 1970."""

    @property
    def requested_unix_ns(self) -> int: ...

    @property
    def received_unix_ns(self) -> int: ...


Stream = AbstractAsyncContextManager[AsyncIterator[StampedReading]]


@dataclass(frozen=True, slots=True)
class _Sent:
    """A reading in the form of a poll's result."""

    value: StampedReading
    error: None = None

    @property
    def requested_at(self) -> datetime:
        return self.value.requested_at

    @property
    def received_at(self) -> datetime:
        return self.value.received_at

    @property
    def requested_monotonic_ns(self) -> int:
        return self.value.requested_monotonic_ns

    @property
    def received_monotonic_ns(self) -> int:
        return self.value.received_monotonic_ns

    @property
    def requested_unix_ns(self) -> int:
        return self.value.requested_unix_ns

    @property
    def received_unix_ns(self) -> int:
        return self.value.received_unix_ns


class StreamSource:
    """Named streams of readings, such as those of :meth:`penstock.alicat.Device.stream`.

    ::

        streams = StreamSource(
            {"fuel": fuel.stream(rate_hz=50)}, fields={"fuel": fuel.field_schema()}
        )
        async with record([manager, streams], rate_hz=10) as recording:
            ...

    Each stream is entered when the recording begins, and left when it ends; queued readings are
    then recorded too. If one stream ends or fails, the other streams of this source end too, and
    the event ``push_ended`` is recorded. An object serves one recording.

    Args:
        streams: The streams by the names of their devices.
        source_id: Identifies this source in a recording.
        fields: The fields of the devices, where they are known.
        facts: What identifies the devices.
    """

    revision = 0

    def __init__(
        self,
        streams: Mapping[str, Stream],
        *,
        source_id: str = "streams",
        fields: Mapping[str, Sequence[FieldSchemaLike]] | None = None,
        facts: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.source_id = source_id
        self._streams = dict(streams)
        self._fields = dict(fields or {})
        self._facts = dict(facts or {})

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names."""
        return tuple(self._streams)

    @property
    def pushed_names(self) -> tuple[str, ...]:
        """All of them: none is polled."""
        return self.names

    def field_schemas(self) -> Mapping[str, Sequence[FieldSchemaLike]]:
        """The fields of the devices, as far as they are known."""
        return self._fields

    def device_facts(self, name: str) -> Mapping[str, str]:
        """What identifies a device."""
        return self._facts.get(name, {})

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, PollResult]:
        """Nothing: these devices send by themselves."""
        await anyio.lowlevel.checkpoint()
        return {}

    @asynccontextmanager
    async def pushed(self) -> AsyncIterator[AsyncIterator[tuple[str, DeviceResultLike]]]:
        """The readings of all streams, as they come."""
        # A reading that was taken from its stream never waits for room, where a cancellation could
        # take it away: there is room before it is taken.
        send, receive = anyio.create_memory_object_stream[tuple[str, DeviceResultLike]](math.inf)
        room = anyio.Semaphore(_WAITING)
        scopes = [anyio.CancelScope() for _ in self._streams]
        failures: list[Exception] = []

        def end_all() -> None:
            for scope in scopes:
                scope.cancel()

        async def forward(
            name: str,
            stream: Stream,
            until: anyio.CancelScope,
            own: MemoryObjectSendStream[tuple[str, DeviceResultLike]],
        ) -> None:
            with own:
                try:
                    await take_all(
                        stream,
                        lambda reading: own.send_nowait((name, _Sent(reading))),
                        until=until,
                        room=room.acquire,
                    )
                except Exception as error:
                    failures.append(error)
            end_all()

        async with plain_task_group() as tasks:
            with send:
                for (name, stream), scope in zip(self._streams.items(), scopes, strict=True):
                    tasks.start_soon(forward, name, stream, scope, send.clone())
            try:
                yield _Readings(receive, room, failures)
            finally:
                end_all()


class _Readings:
    """The readings that were taken from the streams; room for another with each that is read."""

    def __init__(
        self,
        receive: MemoryObjectReceiveStream[tuple[str, DeviceResultLike]],
        room: anyio.Semaphore,
        failures: list[Exception],
    ) -> None:
        self._receive = receive
        self._room = room
        self._failures = failures

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[str, DeviceResultLike]:
        try:
            item = await self._receive.receive()
        except anyio.EndOfStream:
            self._receive.close()
            if self._failures:
                raise self._failures.pop(0) from None
            raise StopAsyncIteration from None
        self._room.release()
        return item


# Reads a stream to its end, with the items that wait in it when it is closed.

T = TypeVar("T")


async def take_all(
    context: AbstractAsyncContextManager[AsyncIterator[T]],
    take: Callable[[T], object],
    *,
    until: anyio.CancelScope,
    room: Callable[[], Awaitable[object]],
) -> bool:
    """Give ``take`` every item of a stream until it ends, or ``until`` is cancelled.

    Then the context is left, and the items that still wait in the stream are taken. A stream that
    cannot be read after that has none.

    Args:
        context: Gives the stream. Leaving it makes the stream end after what waits in it.
        take: Gets an item; does not wait.
        until: A scope of the caller's that was not entered yet.
        room: Returns when there is room for an item. Not asked for what waits at the end.

    Returns:
        True if the scope was cancelled, False if the stream has ended by itself.
    """
    async with context as stream:
        # Around the reading alone: the context is entered and left undisturbed.
        with until:
            while True:
                await room()
                try:
                    item = await anext(stream)
                except StopAsyncIteration:
                    break
                take(item)
    if not until.cancelled_caught:
        return False
    with suppress(anyio.ClosedResourceError):
        async for item in stream:
            take(item)
    return True
